package cli

import (
	"context"
	"errors"
	"flag"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/fanfaremq/fanfare/internal/rdmaopen"
	"github.com/fanfaremq/fanfare/rdma"
)

// mckey is the counterpart of rdma-core's mckey(1): it joins an RDMA multicast
// group and sends to it, or receives from it. The two can be mixed on a network.
//
// mckeyside.go joins and leaves, mckeydata.go sends and receives, and
// mckeyreport.go says what happened.
type mckey struct {
	url               string
	groupText, mgid   string
	bindText          string
	send, sendOnly    bool
	connections       int
	count             uint64
	size              int
	rate              float64
	timeout, settling time.Duration
	json, quiet       bool

	sim         bool // the URL names a simulated subnet
	group, bind rdma.Addr
	report      *mckeyReport
}

// Defaults of mckey(1), and what it does not have: limits to waiting.
const (
	mckeyGroup    = "239.1.2.3"
	mckeyCount    = 10
	mckeySize     = 100
	mckeyTimeout  = 30 * time.Second
	mckeySettling = 3 * time.Second
	mckeyMaxConns = 64
	// mckeyMaxCount times all pairs of connections is still a number.
	mckeyMaxCount = 1 << 48
)

// Exit codes of mckey beside those of all commands.
const (
	exitNoGroup  = 3 // not joined, or the membership was lost
	exitStrange  = 4 // messages came that are not as mckey's
	exitNoDevice = 5
)

// exitError ends a command with a code of its own.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func mckeyCommand(fs *flag.FlagSet) func(context.Context, *env, []string) error {
	m := new(mckey)
	fs.StringVar(&m.url, "t", "", "")
	fs.StringVar(&m.groupText, "m", mckeyGroup, "")
	fs.StringVar(&m.mgid, "M", "", "")
	fs.StringVar(&m.bindText, "b", "", "")
	fs.BoolVar(&m.send, "s", false, "")
	fs.BoolVar(&m.sendOnly, "o", false, "")
	intVar(fs, "c", &m.connections, 1)
	countVar(fs, "C", &m.count, mckeyCount)
	intVar(fs, "S", &m.size, mckeySize)
	rateVar(fs, "rate", &m.rate)
	durationVar(fs, "timeout", &m.timeout, mckeyTimeout)
	durationVar(fs, "settle", &m.settling, mckeySettling)
	fs.BoolVar(&m.json, "json", false, "")
	fs.BoolVar(&m.quiet, "q", false, "")
	return func(ctx context.Context, e *env, operands []string) error {
		if err := m.check(fs, operands); err != nil {
			return err
		}
		m.report = newMckeyReport(m, e)
		return m.run(ctx)
	}
}

func (m *mckey) check(fs *flag.FlagSet, operands []string) error {
	scheme, _, _ := strings.Cut(m.url, ":")
	m.sim = strings.EqualFold(scheme, "sim")
	switch {
	case len(operands) > 0:
		return usagef("mckey takes no arguments: %q is too many", operands[0])
	case m.url == "":
		return usagef("name the fabric with -t: sim:// simulates one in this process, others are %s", schemesWithout("sim"))
	case isSet(fs, "m") && isSet(fs, "M"):
		return usagef("-m and -M both name the group: give one of them")
	case m.connections < 1 || m.connections > mckeyMaxConns:
		return usagef("-c %d must be from 1 to %d", m.connections, mckeyMaxConns)
	case m.count < 1:
		return usagef("-C 0 is no message: it must be 1 or more")
	case m.count > mckeyMaxCount:
		return usagef("-C %d is too many: it must be at most %d", m.count, uint64(mckeyMaxCount))
	case m.size < 0 || m.size > 4096:
		return usagef("-S %d must be from 0 to 4096 bytes, the largest RDMA MTU", m.size)
	case m.timeout <= 0:
		return usagef("-timeout %v must be more than 0", m.timeout)
	case m.settling < 0:
		return usagef("-settle %v must not be negative", m.settling)
	case m.sim && m.send:
		return usagef("-s is for networks: on sim:// both sides run in this process")
	case m.sim && m.bindText != "":
		return usagef("-b is for networks: hosts on sim:// have addresses of their own")
	case m.sendOnly && !m.send && !m.sim:
		return usagef("-o is how a sender joins: give -s too")
	}
	if m.sim && !isSet(fs, "settle") {
		m.settling = 0 // its switches know of a join when its event comes
	}
	if err := m.parseGroup(isSet(fs, "M")); err != nil {
		return err
	}
	if m.bindText != "" {
		a, err := rdma.ParseAddr(m.bindText)
		if err != nil || a.IP.IsMulticast() || a.IsWildcard() {
			return usagef("-b %q must be an IP address of this host", m.bindText)
		}
		m.bind = a
	}
	return nil
}

func (m *mckey) parseGroup(unmapped bool) error {
	if !unmapped {
		ip, err := netip.ParseAddr(m.groupText)
		if err != nil || !ip.Unmap().IsMulticast() {
			return usagef("-m %q must be a multicast address such as %s", m.groupText, mckeyGroup)
		}
		m.group = rdma.IPAddr(ip)
		return nil
	}
	if m.mgid == "0" {
		m.group = rdma.IBAddr(rdma.GID{})
		return nil
	}
	gid, err := rdma.ParseGID(m.mgid)
	if err != nil || !gid.IsMulticast() {
		return usagef("-M %q must be an MGID such as ff12:4001:ffff::f01:203, or 0 for one that the subnet manager makes up", m.mgid)
	}
	m.group = rdma.IBAddr(gid)
	return nil
}

// schemesWithout lists URL schemes for people.
func schemesWithout(not string) string {
	var list []string
	for _, s := range rdmaopen.Schemes() {
		if s != not {
			list = append(list, s+"://DEVICE")
		}
	}
	return strings.Join(list, ", ")
}

func (m *mckey) run(ctx context.Context) error {
	host, err := rdmaopen.Open(m.url)
	var ue *rdmaopen.URLError
	switch {
	case errors.As(err, &ue):
		return &usageError{err}
	case err != nil:
		err = &exitError{exitNoDevice, err}
	default:
		defer host.Close()
		err = m.sides(ctx, host)
	}
	if sum := m.report.summarize(err); err == nil {
		err = sum
	}
	return err
}

// sides runs what this process is: the sender, the receiver, or both.
func (m *mckey) sides(ctx context.Context, host *rdmaopen.Host) (err error) {
	end := func(s *mckeySide) {
		if cerr := s.close(); err == nil {
			err = cerr
		}
	}
	if host.Peer == nil {
		role := roleReceiver
		if m.send {
			role = roleSender
		}
		s := &mckeySide{m: m, role: role, host: host, expect: m.count}
		defer end(s)
		if err := s.join(ctx, m.group); err != nil {
			return err
		}
		return s.transfer(ctx)
	}
	// Each receiving connection hears all sending ones.
	rx := &mckeySide{m: m, role: roleReceiver, host: host, expect: m.count * uint64(m.connections)}
	defer end(rx)
	if err := rx.join(ctx, m.group); err != nil {
		return err
	}
	tx := &mckeySide{m: m, role: roleSender, host: host.Peer}
	defer end(tx)
	if err := tx.join(ctx, rx.senderGroup(m.group)); err != nil {
		return err
	}
	var wg sync.WaitGroup
	var sendErr error
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	wg.Go(func() {
		if sendErr = tx.transfer(ctx); sendErr != nil {
			cancel(sendErr)
		}
	})
	recvErr := rx.transfer(ctx)
	if recvErr != nil {
		cancel(recvErr)
	}
	wg.Wait()
	if sendErr != nil {
		return sendErr
	}
	return recvErr
}

var errMckeyTimeout = errors.New("time is up")

// withTimeout bounds a step by -timeout.
func (m *mckey) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, m.timeout, errMckeyTimeout)
}

// noGroup is err with exit code 3, unless the context ended for another reason
// than -timeout.
func noGroup(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && cause != errMckeyTimeout {
		return cause
	}
	return &exitError{exitNoGroup, err}
}

const mckeyHelp = `Join an RDMA multicast group, and send to it or receive from it: the counterpart
of rdma-core's mckey, which can be the other side.

Usage: fanfare mckey -t URL [flags]        receive
       fanfare mckey -t URL -s [flags]     send
       fanfare mckey -t sim:// [flags]     both, on a simulated subnet

The receiver ends when it has COUNT messages on each connection. Start it first:
UD multicast does not repeat what nobody heard.

Flags:
` + rdmaURLHelp + `  -m GROUP        IP address of the group. Default ` + mckeyGroup + `
  -M MGID         the group by its MGID, as it is (InfiniBand only); 0: a new one that
                  the subnet manager makes up, and that is printed. The original
                  wants -b with it; here -t names the port already
  -b ADDRESS      IP address of this host to use, instead of the first of the device
  -s              send. Default: receive
  -o              join as send-only full member: can be heard, never hears
  -c N            connections: queue pairs that join the group. Default 1, at most 64
                  and what the device attaches to a group (Soft-RoCE: 56)
  -C COUNT        messages to send on each connection, or to wait for on each.
                  Default 10
  -S BYTES        bytes in a message. Default 100, at most the port's MTU
  -rate N         send at most N messages a second on each connection. Default: no
                  limit; a receiver holds up to 1024 in its queue
  -timeout D      how long to wait for all joins, and then as long again for all
                  messages, after -settle. Default 30s
  -settle D       wait D from the join to the first message sent, while switches
                  learn of members. Default 3s; 0 on sim://
  -json           results as JSON objects on standard output
  -q              nothing on standard output but what -json writes

Each connection tells of the join what RDMA CM's event says (MGID, MLID, Q_Key,
QPN), and of the first 20 messages length, immediate, and QPN and GID they came
from. A sender puts its QPN into the immediate, as the original does.

Examples:
  fanfare mckey -t sim://
  fanfare mckey -t 'sim://?flavor=roce' -o -C 100 -json
  fanfare mckey -t roce://eth0 -m 239.1.2.3
  fanfare mckey -t roce://eth0 -m 239.1.2.3 -s -o

` + exitHelp + `  3         the group was not joined, or its membership was lost
  4         messages came that have another length than -S says, or whose immediate
            is not the QPN they came from
  5         no such device, or no RDMA on this host
It is 0 for a receiver when all came, and 1 when some were missing at the end of
-timeout. A sender's 0 says that all were sent, not that anybody heard them.
`

const rdmaURLHelp = `  -t URL          the fabric: sim:// simulates two hosts on an InfiniBand subnet in
                  this process (options flavor=roce, mtu, switches, latency=5us,
                  loss=0.1, dup, reorder, seed=1, sendonly=off, mlids);
                  roce://eth0 is RoCEv2 over plain sockets, rdma://mlx5_0 is rdma-core
                  (in programs built with -tags rdma). A device is named by itself,
                  its interface or its address; without a name: the first active
`
