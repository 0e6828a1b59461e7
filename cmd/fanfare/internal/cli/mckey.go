package cli

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fanfaremq/fanfare/internal/fabricurl"
	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/rdma"
)

// mckey is the counterpart of rdma-core's mckey(1): it joins an RDMA multicast group, and sends to
// it or receives from it. The two programs work together on a network.
type mckey struct {
	url, ip, mgid     string
	send, sendOnly    bool
	size              int
	count             uint64
	rate              float64
	timeout, settling time.Duration

	sim   bool // the URL names a simulated subnet
	group rdma.Addr
	sides []*mckeySide // the receiver, the sender, or both

	mu  sync.Mutex // guards writing to out
	out io.Writer
}

const (
	mckeyGroup  = "239.1.2.3" // this and the next two are the defaults of mckey(1)
	mckeyCount  = 10
	mckeySize   = 100
	mckeyListed = 20 // messages printed, at most

	mckeyRecvSlots = 1024 // messages of a burst that a receiver can buffer
	mckeySendDepth = 64   // unfinished send requests

	roleSender   = "sender" // in the output
	roleReceiver = "receiver"

	exitNoGroup    = 3 // not joined, or the membership was lost
	exitUnexpected = 4 // received messages that mckey did not send
	exitNoDevice   = 5
)

var errMckeyTimeout = errors.New("time is up")

func mckeyCommand() command {
	return command{
		name:    "mckey",
		summary: "join an RDMA multicast group and send or receive, to test an RDMA fabric",
		usage: `fanfare mckey -t URL [flags]        receive
fanfare mckey -t URL -s [flags]     send
fanfare mckey -t sim:// [flags]     both, on a simulated subnet`,
		about: `It is the counterpart of rdma-core's mckey, which can run on the other side. The
receiver ends after -C messages. Start it before the sender: UD multicast is not
retransmitted.
`,
		notes: `It prints the parameters of the join from RDMA CM's event (MGID, MLID, Q_Key, QPN),
and for the first 20 messages their length, immediate, and the sender's QPN and GID.
A sender puts its QPN into the immediate, as the original does.
`,
		examples: `fanfare mckey -t sim://
fanfare mckey -t 'sim://?flavor=roce' -o -C 100
fanfare mckey -t roce://eth0 -m 239.1.2.3
fanfare mckey -t roce://eth0 -m 239.1.2.3 -s -o`,
		exits: []word{
			{"3", "the group was not joined, or its membership was lost"},
			{"4", "messages with a length other than -S, or with an immediate that is not the sender's QPN"},
			{"5", "no such device, or no RDMA on this host"},
		},
		exitNotes: `For a receiver it is 0 when all messages arrived, and 1 when some were missing after
-timeout. For a sender 0 means that all were sent, not that any were received.
`,
		flags: flagsOf(func() *mckey { return new(mckey) }),
	}
}

func (m *mckey) register(fs *flagSet) {
	stringVar(fs, &m.url, "t", "", "the fabric as a `URL`.\n"+
		"sim:// simulates two hosts on an InfiniBand subnet in this process (options flavor=roce, mtu, switches, latency=5us, "+
		"loss=0.1, dup, reorder, seed=1, sendonly=off, mlids).\n"+
		"roce://eth0 is RoCEv2 over plain sockets, rdma://mlx5_0 uses rdma-core (in programs built with -tags rdma). A device is given "+
		"by its name, its interface or its address; without a name the first active device is used")
	stringVar(fs, &m.ip, "m", mckeyGroup, "IP address of the `GROUP`")
	stringVar(fs, &m.mgid, "M", "", "the group by its `MGID`, unchanged (InfiniBand only); 0: the subnet manager chooses a new one, "+
		"which is printed. The original needs -b with it; here -t names the port")
	boolVar(fs, &m.send, "s", "send instead of receive")
	boolVar(fs, &m.sendOnly, "o", "join as send-only full member, which sends and never receives")
	above(countVar(fs, &m.count, "C", mckeyCount, "send or wait for `COUNT` messages"), 0)
	within(intVar(fs, &m.size, "S", mckeySize, "message size in `BYTES`, at most the port's MTU"), 0, 4096)
	rateVar(fs, &m.rate, "rate", "send at most `N` messages a second; 0, the default: no limit. A receiver buffers up "+
		"to 1024 messages")
	above(durationVar(fs, &m.timeout, "timeout", 30*time.Second, "time limit for all joins, and again for all messages after -settle"), 0)
	atLeast(durationVar(fs, &m.settling, "settle", 3*time.Second, "how long to wait between the join and the first message, so that switches learn the "+
		"members; on sim:// 0 by default"), 0)
}

func (m *mckey) check(fs *flagSet, operands []string) error {
	scheme, _, _ := strings.Cut(m.url, ":")
	m.sim = strings.EqualFold(scheme, "sim")
	switch {
	case len(operands) > 0:
		return usagef("mckey takes no arguments: %q is too many", operands[0])
	case m.url == "":
		return usagef("no fabric given: use -t sim:// for one simulated in this process, or -t rdma://DEVICE or -t roce://DEVICE")
	case fs.isSet("m") && fs.isSet("M"):
		return usagef("-m and -M both set the group: use one of the two")
	case m.sim && m.send:
		return usagef("-s is not for sim://, where both sides run in this process")
	case m.sendOnly && !m.send && !m.sim:
		return usagef("-o is for senders: add -s")
	}
	if !fs.isSet("settle") && (m.sim || !m.send) {
		m.settling = 0 // a simulated switch knows the member when the join event arrives
	}
	ip, err := netip.ParseAddr(m.ip)
	if !fs.isSet("M") {
		if m.group = rdma.IPAddr(ip); err != nil || !ip.Unmap().IsMulticast() {
			return usagef("-m %q must be a multicast address such as %s", m.ip, mckeyGroup)
		}
		return nil
	}
	gid, err := rdma.ParseGID(m.mgid)
	if m.group = rdma.IBAddr(gid); m.mgid != "0" && (err != nil || !gid.IsMulticast()) {
		return usagef("-M %q must be an MGID such as ff12:4001:ffff::f01:203, or 0 to let the subnet manager choose one", m.mgid)
	}
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
	return cmp.Or(err, m.summarize())
}

func (m *mckey) transfer(ctx context.Context, host *fabricurl.Host) (err error) {
	if !m.send {
		m.sides = append(m.sides, &mckeySide{m: m, role: roleReceiver, host: host})
	}
	if m.send || host.Peer != nil {
		m.sides = append(m.sides, &mckeySide{m: m, role: roleSender, host: cmp.Or(host.Peer, host)})
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

func (m *mckey) printf(format string, args ...any) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := fmt.Fprintf(m.out, format, args...)
	return err
}

func (m *mckey) summarize() (err error) {
	for _, s := range m.sides {
		switch {
		case s.ah == nil || err != nil:
		case s.role == roleSender:
			err = m.printf("sender: %s of %d bytes sent\n", count(s.messages, "message"), m.size)
		default:
			err = m.printf("receiver: %d of %s received\n", s.messages, count(m.count, "message"))
		}
	}
	return err
}

type mckeySide struct {
	m    *mckey
	role string
	host *fabricurl.Host

	ch        rdma.EventChannel
	id        rdma.ID
	port      rdma.PortAttr
	pd        rdma.PD
	mem       []byte // message slots
	slotBytes int
	mr        rdma.MR
	cq        rdma.CQ
	wcs       [mckeySendDepth]rdma.WorkCompletion
	qp        rdma.QP
	ud        rdma.UDParam
	ah        rdma.AH                       // nil: not joined
	ends      []func(context.Context) error // undo functions, in the order of creation

	messages, unexpected uint64 // sent or received; of those received, with unexpected content
}

// member returns the flags of the join. A send-only member attaches no queue pair.
func (s *mckeySide) member() rdma.JoinFlags {
	if s.role == roleSender && s.m.sendOnly {
		return rdma.JoinSendOnlyFullMember
	}
	return rdma.JoinFullMember
}

// join opens the side and joins the group. It returns the group for the other side, which the
// subnet manager may have chosen.
func (s *mckeySide) join(ctx context.Context, group rdma.Addr) (rdma.Addr, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.m.timeout, fmt.Errorf("no answer within %v", s.m.timeout))
	defer cancel()
	if err := s.open(); err != nil {
		return group, err
	}
	if err := s.joinGroup(ctx, group); err != nil {
		err = cmp.Or(context.Cause(ctx), err)
		return group, &exitError{exitNoGroup, fmt.Errorf("group %v could not be joined: %w%s", group, err, s.joinHint(group, err))}
	}
	ah := &s.ud.AHAttr
	if group.Family == rdma.FamilyIB {
		group = rdma.IBAddr(ah.GRH.DGID)
	}
	return group, s.m.printf("%[1]s: joined as %[2]s with QPN %[3]v on %[4]s port %[5]d (%[6]v)\n"+
		"%[1]s: joined dgid: %[7]v mlid %[8]v sl %[9]d, qpn %[10]v, qkey %[11]v, sgid_index %[12]d, hop_limit %[13]d\n",
		s.role, s.member(), s.qp.QPN(), s.pd.Device().Name(), s.id.Port(), s.port.LinkLayer,
		ah.GRH.DGID, ah.DLID, ah.SL, s.ud.QPN, s.ud.QKey, ah.GRH.SGIDIndex, ah.GRH.HopLimit)
}

// atEnd adds f to the functions that close calls in reverse order, as verbs requires.
func (s *mckeySide) atEnd(f func(context.Context) error) { s.ends = append(s.ends, f) }

func (s *mckeySide) close() (first error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, end := range slices.Backward(s.ends) {
		if err := end(ctx); err != nil && first == nil {
			first = fmt.Errorf("%s: closing: %w", s.role, err)
		}
	}
	return first
}

// opened calls open unless *err is set, and adds the closing of its result to close.
func opened[T io.Closer](s *mckeySide, err *error, open func() (T, error)) (x T) {
	if *err == nil {
		if x, *err = open(); *err == nil {
			s.atEnd(func(context.Context) error { return x.Close() })
		}
	}
	return x
}

func (s *mckeySide) open() (err error) {
	if s.ch = opened(s, &err, s.host.NewEventChannel); err != nil {
		return &exitError{exitNoDevice, err}
	}
	if s.id, err = s.ch.CreateID(rdma.PortSpaceUDP, nil); err != nil {
		return err
	}
	s.atEnd(s.id.Destroy)
	if err := s.id.Bind(s.host.Addr); err != nil {
		return &exitError{exitNoDevice, err}
	}
	dev, err := s.id.Device()
	if err == nil {
		s.port, err = dev.Port(s.id.Port())
	}
	mtu, depth := int(s.port.ActiveMTU), rdma.QPCap{MaxSendWR: mckeySendDepth, MaxRecvWR: 1}
	switch {
	case err != nil:
		return err
	case s.m.size > mtu:
		return usagef("-S %d is more than the %d bytes of the port's MTU", s.m.size, mtu)
	case s.role == roleReceiver:
		depth.MaxRecvWR = int(min(s.m.count, mckeyRecvSlots))
	}
	// A message longer than its buffer puts rxe's queue pair into the error state (kernel sw/rxe/rxe_resp.c).
	s.slotBytes = rdma.GRHBytes + mtu
	if s.mem, err = sys.Alloc(depth.MaxRecvWR * s.slotBytes); err != nil {
		return err
	}
	s.atEnd(func(context.Context) error { sys.Free(s.mem); return nil })
	s.pd = opened(s, &err, dev.AllocPD)
	s.mr = opened(s, &err, func() (mr rdma.MR, err error) {
		if mr, err = s.pd.RegisterMemory(s.mem, rdma.AccessLocalWrite); err != nil {
			err = fmt.Errorf("%w: 'ulimit -l' limits the memory that can be registered", err)
		}
		return mr, err
	})
	s.cq = opened(s, &err, func() (rdma.CQ, error) { return dev.CreateCQ(depth.MaxSendWR+depth.MaxRecvWR, nil, nil) })
	if err != nil {
		return err
	}
	if s.qp, err = s.id.CreateQP(s.pd, rdma.QPInitAttr{Cap: depth, SendCQ: s.cq, RecvCQ: s.cq}); err != nil {
		return err
	}
	s.atEnd(func(context.Context) error { return s.id.DestroyQP() })
	for i := 0; i < depth.MaxRecvWR && s.role == roleReceiver && err == nil; i++ {
		err = s.post(uint64(i))
	}
	return err
}

// joinGroup handles the event of the join, which attaches the queue pair of a full member.
func (s *mckeySide) joinGroup(ctx context.Context, group rdma.Addr) error {
	attr := rdma.JoinAttr{CompMask: rdma.JoinMaskAddress | rdma.JoinMaskFlags, Flags: s.member(), Addr: group}
	err := s.id.JoinMulticastEx(attr, nil)
	if err == nil {
		s.atEnd(func(ctx context.Context) error { return s.id.LeaveMulticast(ctx, group) })
	}
	for joined := false; !joined && err == nil; {
		var ev *rdma.Event
		if ev, err = s.ch.GetEvent(ctx); err == nil {
			s.ud, joined = ev.UD, ev.Type == rdma.EventMulticastJoin
			err = cmp.Or(ev.Ack(), ev.Err())
		}
	}
	s.ah = opened(s, &err, func() (rdma.AH, error) { return s.pd.CreateAH(s.ud.AHAttr) })
	return err
}

func (s *mckeySide) joinHint(group rdma.Addr, err error) string {
	infiniband := s.port.LinkLayer == rdma.LinkLayerInfiniBand
	switch {
	case errors.Is(err, syscall.ETIMEDOUT):
		return ": is a subnet manager running?"
	case group.Family == rdma.FamilyIB && !infiniband:
		return ": -M is only for InfiniBand; use an IPv4 group with -m"
	case !errors.Is(err, syscall.EINVAL) || !infiniband:
		return ""
	case s.member() == rdma.JoinSendOnlyFullMember:
		return ": the subnet manager refused the join; if it does not support send-only members, send without -o"
	}
	return ": the subnet manager refused the join; see its log"
}

func (s *mckeySide) transfer(ctx context.Context) error {
	do, late := s.send, "%d of %s sent within %v"
	if s.role == roleReceiver {
		do, late = s.receive, "%d of %s received within %v: check that the sender uses the same group and network, and was started after this receiver"
	}
	err := do(ctx)
	if errors.Is(err, errMckeyTimeout) {
		return fmt.Errorf(late, s.messages, count(s.m.count, "message"), s.m.timeout)
	}
	return err
}

// send returns when the device has sent all messages. All have the same content, so one buffer serves all.
func (s *mckeySide) send(ctx context.Context) error {
	if err := sleep(ctx, s.m.settling); err != nil {
		return err
	}
	wr := rdma.SendWR{
		SG: []rdma.SGE{{Buf: s.mem[:s.m.size], LKey: s.mr.LKey()}}, Opcode: rdma.OpSendWithImm,
		AH: s.ah, QPN: s.ud.QPN, QKey: s.ud.QKey,
	}
	binary.BigEndian.PutUint32(wr.Imm[:], uint32(s.qp.QPN()))
	due := schedule{perSecond: s.m.rate}
	for left := s.m.count; left > 0; left = s.m.count - s.messages {
		n, err := due.take(ctx, int(min(left, mckeySendDepth)))
		if err == nil {
			wrs := slices.Repeat([]rdma.SendWR{wr}, n)
			wrs[n-1].Flags = rdma.SendSignaled // its completion implies those of all earlier ones
			_, err = s.qp.PostSend(wrs)
		}
		if err == nil {
			_, err = s.completions(ctx)
		}
		if err != nil {
			return err
		}
		s.messages += uint64(n)
	}
	return nil
}

// completions waits for at least one completion. A failed completion or a lost membership is an error.
func (s *mckeySide) completions(ctx context.Context) ([]rdma.WorkCompletion, error) {
	for {
		if ev, err := s.ch.TryGetEvent(); err == nil {
			if err := cmp.Or(ev.Ack(), ev.Err()); err != nil {
				return nil, &exitError{exitNoGroup, fmt.Errorf("the membership was lost: %w", err)}
			}
		}
		n, err := s.cq.Poll(s.wcs[:])
		if err != nil {
			return nil, err
		}
		for i := range s.wcs[:n] {
			switch s.wcs[i].Status {
			case rdma.WCSuccess:
			case rdma.WCWRFlushErr:
				return nil, &exitError{exitNoGroup, errors.New("the queue pair was flushed: its device failed or was removed")}
			default:
				return nil, fmt.Errorf("a work request completed with %v", s.wcs[i].Status)
			}
		}
		if n > 0 {
			return s.wcs[:n], nil
		}
		if err := sleep(ctx, time.Millisecond); err != nil {
			return nil, err
		}
	}
}

func (s *mckeySide) receive(ctx context.Context) error {
	for s.messages < s.m.count {
		done, err := s.completions(ctx)
		if err != nil {
			return err
		}
		for i := range done {
			if err := cmp.Or(s.message(&done[i]), s.post(done[i].WRID)); err != nil {
				return err
			}
		}
	}
	if s.unexpected > 0 {
		return &exitError{exitUnexpected, fmt.Errorf("%s had another length than %d bytes, or not the sender's QPN as immediate",
			count(s.unexpected, "message"), s.m.size)}
	}
	return nil
}

func (s *mckeySide) message(wc *rdma.WorkCompletion) error {
	s.messages++
	bytes, imm, gid := max(0, int(wc.ByteLen)-rdma.GRHBytes), "none", "none"
	if wc.Flags&rdma.WCWithImm != 0 {
		imm = rdma.QPN(binary.BigEndian.Uint32(wc.Imm[:])).String()
	}
	if h, ok := rdma.ParseGRH(s.port.LinkLayer, s.slot(wc.WRID)); ok {
		gid = h.Src.String()
	}
	note := ""
	if imm != wc.SrcQPN.String() || bytes != s.m.size {
		s.unexpected++
		note = " (unexpected)"
	}
	if s.messages > mckeyListed {
		return nil
	}
	return s.m.printf("%s: message %d: %d bytes, immediate %s, from QPN %s, GID %s%s\n", s.role, s.messages, bytes, imm, wc.SrcQPN, gid, note)
}

func (s *mckeySide) slot(i uint64) []byte { return s.mem[int(i)*s.slotBytes:][:s.slotBytes] }

func (s *mckeySide) post(i uint64) error {
	_, err := s.qp.PostRecv([]rdma.RecvWR{{WRID: i, SG: []rdma.SGE{{Buf: s.slot(i), LKey: s.mr.LKey()}}}})
	return err
}
