package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/fanfaremq/fanfare/internal/fabricurl"
	"github.com/fanfaremq/fanfare/rdma"
)

// mckey is the counterpart of rdma-core's mckey(1): it joins an RDMA multicast
// group and sends to it, or receives from it. The two can be mixed on a network.
type mckey struct {
	url, groupText, mgid string
	send, sendOnly, json bool
	size                 int
	count                uint64
	rate                 float64
	timeout, settling    time.Duration

	sim   bool // the URL names a simulated subnet
	group rdma.Addr
	sides []*mckeySide // the receiver, the sender, or both

	mu  sync.Mutex // guards writing to out
	out io.Writer
}

// Defaults of mckey(1), and what it does not have: limits to waiting.
const (
	mckeyGroup    = "239.1.2.3"
	mckeyCount    = 10
	mckeySize     = 100
	mckeyTimeout  = 30 * time.Second
	mckeySettling = 3 * time.Second
	mckeyListed   = 20 // messages that are listed, at most

	roleSender   = "sender" // in what is printed
	roleReceiver = "receiver"
)

// Exit codes of mckey beside those of all commands.
const (
	exitNoGroup  = 3 // not joined, or the membership was lost
	exitStrange  = 4 // messages came that are not as mckey's
	exitNoDevice = 5
)

func mckeyCommand() command {
	return command{
		name:    "mckey",
		summary: "join an RDMA multicast group, and send or receive: test an RDMA fabric",
		usage: []string{
			"fanfare mckey -t URL [flags]        receive",
			"fanfare mckey -t URL -s [flags]     send",
			"fanfare mckey -t sim:// [flags]     both, on a simulated subnet",
		},
		about: `It is the counterpart of rdma-core's mckey, which can be the other side. The
receiver ends when it has as many messages as -C says. Start it first: UD multicast
does not repeat what nobody heard.
`,
		notes: `It tells of the join what RDMA CM's event says (MGID, MLID, Q_Key, QPN), and of the
first 20 messages length, immediate, and QPN and GID they came from. A sender puts
its QPN into the immediate, as the original does.
`,
		examples: []string{
			"fanfare mckey -t sim://",
			"fanfare mckey -t 'sim://?flavor=roce' -o -C 100 -json",
			"fanfare mckey -t roce://eth0 -m 239.1.2.3",
			"fanfare mckey -t roce://eth0 -m 239.1.2.3 -s -o",
		},
		exits: []word{
			{"3", "the group was not joined, or its membership was lost"},
			{"4", "messages came that have another length than -S says, or whose immediate is not the QPN they came from"},
			{"5", "no such device, or no RDMA on this host"},
		},
		exitNotes: `It is 0 for a receiver when all came, and 1 when some were missing at the end of
-timeout. A sender's 0 says that all were sent, not that anybody heard them.
`,
		flags: flagsOf(func() *mckey { return new(mckey) }),
	}
}

func (m *mckey) register(fs *flagSet) {
	stringVar(fs, &m.url, "t", "", "the fabric by its `URL`.\n"+
		"sim:// simulates two hosts on an InfiniBand subnet in this process (options flavor=roce, mtu, switches, latency=5us, "+
		"loss=0.1, dup, reorder, seed=1, sendonly=off, mlids).\n"+
		"roce://eth0 is RoCEv2 over plain sockets, rdma://mlx5_0 is rdma-core (in programs built with -tags rdma). A device is named "+
		"by itself, its interface or its address; without a name: the first active")
	stringVar(fs, &m.groupText, "m", mckeyGroup, "IP address of the `GROUP`")
	stringVar(fs, &m.mgid, "M", "", "the group by its `MGID`, as it is (InfiniBand only); 0: a new one that the subnet manager makes up, "+
		"and that is printed. The original wants -b with it; here -t names the port already")
	boolVar(fs, &m.send, "s", "send, and do not receive")
	boolVar(fs, &m.sendOnly, "o", "join as send-only full member: can be heard, never hears")
	above(countVar(fs, &m.count, "C", mckeyCount, "`COUNT` messages to send, or to wait for"), 0)
	within(intVar(fs, &m.size, "S", mckeySize, "`BYTES` in a message, at most the port's MTU"), 0, 4096)
	rateVar(fs, &m.rate, "rate", "send at most `N` messages a second; 0, the default: no limit. A receiver holds up "+
		"to 1024 in its queue")
	above(durationVar(fs, &m.timeout, "timeout", mckeyTimeout, "how long to wait for all joins, and then as long again for all messages, after -settle"), 0)
	atLeast(durationVar(fs, &m.settling, "settle", mckeySettling, "how long to wait from the join to the first message sent, while switches learn of "+
		"members; on sim:// 0 unless given"), 0)
	boolVar(fs, &m.json, "json", "results as JSON objects on standard output")
}

func (m *mckey) check(fs *flagSet, operands []string) error {
	scheme, _, _ := strings.Cut(m.url, ":")
	m.sim = strings.EqualFold(scheme, "sim")
	switch {
	case len(operands) > 0:
		return usagef("mckey takes no arguments: %q is too many", operands[0])
	case m.url == "":
		return usagef("name the fabric with -t: sim:// simulates one in this process, others are rdma://DEVICE, roce://DEVICE")
	case fs.isSet("m") && fs.isSet("M"):
		return usagef("-m and -M both name the group: give one of them")
	case m.sim && m.send:
		return usagef("-s is for networks: on sim:// both sides run in this process")
	case m.sendOnly && !m.send && !m.sim:
		return usagef("-o is how a sender joins: give -s too")
	}
	if !fs.isSet("settle") && (m.sim || !m.send) {
		m.settling = 0 // a simulated switch knows of a join when its event comes, and a receiver waits for nothing
	}
	return m.parseGroup(fs.isSet("M"))
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

func (m *mckey) run(ctx context.Context, e *env) error {
	m.out = e.stdout
	host, err := fabricurl.OpenHost(m.url)
	switch {
	case errors.As(err, new(*fabricurl.Error)):
		return &usageError{err}
	case err != nil:
		err = &exitError{exitNoDevice, err}
	default:
		defer host.Close()
		err = m.transfer(ctx, host)
	}
	return cmp.Or(err, m.summarize(err))
}

// transfer joins, sends and receives as what this process is: the sender, the receiver, or both.
func (m *mckey) transfer(ctx context.Context, host *fabricurl.Host) (err error) {
	switch {
	case host.Peer != nil:
		m.sides = []*mckeySide{{m: m, role: roleReceiver, host: host}, {m: m, role: roleSender, host: host.Peer}}
	case m.send:
		m.sides = []*mckeySide{{m: m, role: roleSender, host: host}}
	default:
		m.sides = []*mckeySide{{m: m, role: roleReceiver, host: host}}
	}
	group := m.group
	for _, s := range m.sides {
		defer func() { err = cmp.Or(err, s.close()) }()
		if group, err = s.join(ctx, group); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, m.settling+m.timeout, errMckeyTimeout)
	defer cancel()
	errs := make(chan error, len(m.sides))
	for _, s := range m.sides {
		go func() { errs <- s.transfer(ctx) }()
	}
	for range m.sides {
		if e := <-errs; e != nil && err == nil {
			err = e
			cancel()
		}
	}
	return err
}

// mckeyJoin is what RDMA CM's event says of a join (type "join").
type mckeyJoin struct {
	Type      string `json:"type"`
	Role      string `json:"role"`
	Device    string `json:"device"`
	Port      uint8  `json:"port"`
	LinkLayer string `json:"link_layer"`
	LocalQPN  string `json:"local_qpn"`
	Member    string `json:"member"`
	DGID      string `json:"dgid"`
	MLID      string `json:"mlid"`
	QPN       string `json:"qpn"`
	QKey      string `json:"qkey"`
	SL        uint8  `json:"sl"`
	SGIDIndex int    `json:"sgid_index"`
	HopLimit  uint8  `json:"hop_limit"`
}

// mckeyMessage is a received message (type "message").
type mckeyMessage struct {
	Type       string `json:"type"`
	Role       string `json:"role"`   // the receiver's
	Number     uint64 `json:"number"` // from 1
	Bytes      int    `json:"bytes"`
	Immediate  string `json:"immediate,omitempty"`
	SourceQPN  string `json:"source_qpn"`
	SourceGID  string `json:"source_gid,omitempty"`
	AsExpected bool   `json:"as_expected"` // it has the length of -S and its sender's QPN as immediate
}

// mckeySummary is the result (type "summary").
type mckeySummary struct {
	Type     string `json:"type"`
	Role     string `json:"role"` // of this process
	Sent     uint64 `json:"sent"`
	Received uint64 `json:"received"`
	Expected uint64 `json:"expected"` // to receive
	Strange  uint64 `json:"strange"`
	Complete bool   `json:"complete"`
	Error    string `json:"error,omitempty"`
}

// write writes one form or the other.
func (m *mckey) write(v any, format string, args ...any) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.json {
		return newJSONLines(m.out).write(v)
	}
	_, err := fmt.Fprintf(m.out, format, args...)
	return err
}

// summarize writes the result, err being why it ended early.
func (m *mckey) summarize(err error) error {
	s := mckeySummary{Type: "summary", Role: roleReceiver, Complete: err == nil}
	if m.sim {
		s.Role = "both"
	} else if m.send {
		s.Role = roleSender
	}
	if err != nil {
		s.Error = err.Error()
	}
	text := ""
	for _, side := range m.sides {
		switch s.Strange += side.strange; {
		case !side.joined:
		case side.role == roleSender:
			s.Sent = side.messages
			text += fmt.Sprintf("sender: %s of %d bytes sent\n", count(s.Sent, "message"), m.size)
		default:
			s.Received, s.Expected = side.messages, m.count
			text += fmt.Sprintf("receiver: %d of %s received\n", s.Received, count(s.Expected, "message"))
		}
	}
	return m.write(&s, "%s", text)
}
