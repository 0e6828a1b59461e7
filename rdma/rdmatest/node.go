package rdmatest

import (
	"context"
	"errors"
	"net/netip"
	"syscall"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/rdma"
)

// tries bounds the calls of Net.Settle while the suite waits for something; quietTries is the number of calls when it
// checks that nothing arrives.
const (
	tries      = 2000
	quietTries = 4
)

// eventually settles the network until cond holds.
func (t *T) eventually(what string, cond func() bool) {
	t.Helper()
	for range tries {
		if cond() {
			return
		}
		t.net.Settle()
	}
	if !cond() {
		t.Fatalf("did not happen: %s", what)
	}
}

// quiet settles the network quietTries times.
func (t *T) quiet() {
	for range quietTries {
		t.net.Settle()
	}
}

// wantErrno fails the test unless err has the errno want.
func (t *T) wantErrno(what string, err error, want syscall.Errno) {
	t.Helper()
	var errno syscall.Errno
	if !errors.As(err, &errno) || errno != want {
		t.Errorf("%s: error %v (errno %d), want errno %d (%v)", what, err, int(errno), int(want), want)
	}
}

func (t *T) must(what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s failed: %v", what, err)
	}
}

// group returns the IPv4 group 239.77.x.y.
func group(x, y byte) rdma.Addr { return rdma.IPAddr(netip.AddrFrom4([4]byte{239, 77, x, y})) }

func addr(s string) rdma.Addr {
	a, err := rdma.ParseAddr(s)
	if err != nil {
		panic(err)
	}
	return a
}

// Sizes of a node's queues in slots for the largest datagram. The first half is for receiving.
const (
	slots    = 64
	slotSize = rdma.GRHBytes + 4096
	depth    = 16
)

// node is an id on a host with the objects that belong to it.
type node struct {
	t      *T
	host   int
	ch     rdma.EventChannel
	id     rdma.ID
	dev    rdma.Device
	pd     rdma.PD
	mr     rdma.MR
	mem    []byte
	cq     rdma.CQ
	qp     rdma.QP
	ahs    []rdma.AH
	joined []rdma.Addr
	unack  []*rdma.Event
	msgs   []message // received, not returned yet
	next   int       // the next receive slot to post
	sends  int       // number of completions of sends
	bad    []rdma.WorkCompletion
}

// message is a received datagram.
type message struct {
	wc   rdma.WorkCompletion
	area []byte // GRH
	data string
}

// nodeConfig has the differences of a node from the default: a bound id of PortSpaceUDP with a queue pair.
type nodeConfig struct {
	ps      rdma.PortSpace
	noBind  bool
	noQP    bool
	noRecv  bool // post no receives
	sendCap int
	recvCap int
}

// bare makes an unbound id on a host, without other objects.
func (t *T) bare(host int, ps rdma.PortSpace) *node {
	t.Helper()
	n := &node{t: t, host: host}
	var err error
	n.ch, err = t.net.Hosts[host].Provider.NewEventChannel()
	t.must("NewEventChannel", err)
	n.id, err = n.ch.CreateID(ps, n)
	t.must("CreateID", err)
	t.Cleanup(n.close)
	return n
}

// node makes a node on a host.
func (t *T) node(host int, cfgs ...nodeConfig) *node {
	t.Helper()
	var cfg nodeConfig
	if len(cfgs) > 0 {
		cfg = cfgs[0]
	}
	if cfg.ps == 0 {
		cfg.ps = rdma.PortSpaceUDP
	}
	n := t.bare(host, cfg.ps)
	if cfg.noBind {
		return n
	}
	t.must("Bind", n.id.Bind(t.net.Hosts[host].Addr))
	if !cfg.noQP {
		n.addQP(cfg)
	}
	return n
}

// resources makes PD, memory and completion queue.
func (n *node) resources() {
	t := n.t
	t.Helper()
	if n.pd != nil {
		return
	}
	var err error
	n.dev, err = n.id.Device()
	t.must("Device", err)
	n.pd, err = n.dev.AllocPD()
	t.must("AllocPD", err)
	n.mem, err = sys.Alloc(slots * slotSize)
	t.must("Alloc", err)
	n.mr, err = n.pd.RegisterMemory(n.mem, rdma.AccessLocalWrite)
	t.must("RegisterMemory", err)
	n.cq, err = n.dev.CreateCQ(4*depth, nil, nil)
	t.must("CreateCQ", err)
}

func (n *node) initAttr() rdma.QPInitAttr {
	return rdma.QPInitAttr{SendCQ: n.cq, RecvCQ: n.cq,
		Cap: rdma.QPCap{MaxSendWR: depth, MaxRecvWR: depth, MaxSendSGE: 2, MaxRecvSGE: 2}}
}

// addQP makes the id's queue pair and posts receives.
func (n *node) addQP(cfg nodeConfig) {
	n.t.Helper()
	n.resources()
	attr := n.initAttr()
	if cfg.sendCap > 0 {
		attr.Cap.MaxSendWR = cfg.sendCap
	}
	if cfg.recvCap > 0 {
		attr.Cap.MaxRecvWR = cfg.recvCap
	}
	qp, err := n.id.CreateQP(n.pd, attr)
	n.t.must("CreateQP", err)
	n.qp = qp
	if !cfg.noRecv {
		n.post(depth)
	}
}

// rawQP makes another queue pair of the node with verbs, in the given state.
func (n *node) rawQP(state rdma.QPState, flags rdma.QPCreateFlags) rdma.QP {
	t := n.t
	t.Helper()
	n.resources()
	attr := n.initAttr()
	attr.Flags = flags
	qp, err := n.pd.CreateQP(attr)
	t.must("PD.CreateQP", err)
	t.Cleanup(func() { _ = qp.Close() })
	n.toState(qp, state)
	return qp
}

// toState changes a queue pair from RESET to a state.
func (n *node) toState(qp rdma.QP, state rdma.QPState) {
	t := n.t
	t.Helper()
	if state >= rdma.QPInit {
		t.must("to INIT", qp.Modify(rdma.QPAttr{State: rdma.QPInit, Port: n.id.Port(), QKey: rdma.UDPQKey},
			rdma.QPMaskState|rdma.QPMaskPKeyIndex|rdma.QPMaskPort|rdma.QPMaskQKey))
	}
	if state >= rdma.QPRTR {
		t.must("to RTR", qp.Modify(rdma.QPAttr{State: rdma.QPRTR}, rdma.QPMaskState))
	}
	if state >= rdma.QPRTS {
		t.must("to RTS", qp.Modify(rdma.QPAttr{State: rdma.QPRTS}, rdma.QPMaskState|rdma.QPMaskSQPSN))
	}
}

// event waits for an event and retrieves it. It is acknowledged by ack or at the end of the test.
func (n *node) event() *rdma.Event {
	n.t.Helper()
	var ev *rdma.Event
	n.t.eventually("an event", func() bool {
		got, err := n.ch.TryGetEvent()
		if err == rdma.ErrNoEvent {
			return false
		}
		n.t.must("TryGetEvent", err)
		ev = got
		return true
	})
	n.unack = append(n.unack, ev)
	return ev
}

// noEvent checks that no event arrives.
func (n *node) noEvent() {
	n.t.Helper()
	n.t.quiet()
	if ev, err := n.ch.TryGetEvent(); err != rdma.ErrNoEvent {
		n.t.Errorf("unexpected event %+v, error %v", ev, err)
	}
}

// ack acknowledges all events retrieved so far.
func (n *node) ack() {
	n.t.Helper()
	for _, ev := range n.unack {
		n.t.must("Ack", ev.Ack())
	}
	n.unack = nil
}

// begin begins a join, which must succeed.
func (n *node) begin(a rdma.Addr, flags rdma.JoinFlags, context any) {
	n.t.Helper()
	err := n.id.JoinMulticastEx(rdma.JoinAttr{CompMask: rdma.JoinMaskAddress | rdma.JoinMaskFlags, Flags: flags, Addr: a},
		context)
	n.t.must("JoinMulticastEx", err)
	n.joined = append(n.joined, a)
}

// join joins a group and acknowledges the event, which must be JOIN.
func (n *node) join(a rdma.Addr) *rdma.Event { n.t.Helper(); return n.joinAs(a, rdma.JoinFullMember) }

func (n *node) joinAs(a rdma.Addr, flags rdma.JoinFlags) *rdma.Event {
	n.t.Helper()
	n.begin(a, flags, nil)
	ev := n.event()
	if ev.Type != rdma.EventMulticastJoin {
		n.t.Fatalf("the join of %v failed: %v", a, ev.Err())
	}
	n.ack()
	n.t.quiet() // so that the switches are programmed
	return ev
}

// leave leaves a group.
func (n *node) leave(a rdma.Addr) error {
	p, err := n.id.BeginLeave(a)
	if err != nil {
		return err
	}
	n.t.eventually("leave to end", p.Done)
	return p.Wait(context.Background())
}

// close closes all remaining objects of the node in the right order.
func (n *node) close() {
	for _, ev := range n.unack {
		_ = ev.Ack()
	}
	for _, a := range n.joined {
		if p, err := n.id.BeginLeave(a); err == nil {
			n.t.eventually("leave to end", p.Done)
		}
	}
	for _, ah := range n.ahs {
		_ = ah.Close()
	}
	if n.id.QP() != nil {
		_ = n.id.DestroyQP()
	}
	for _, c := range []interface{ Close() error }{n.mr, n.cq, n.pd} {
		if c != nil && n.pd != nil {
			_ = c.Close()
		}
	}
	if p, err := n.id.BeginDestroy(); err == nil {
		n.t.eventually("destruction to end", p.Done)
	}
	_ = n.ch.Close()
	if n.mr != nil {
		sys.Free(n.mem)
	}
}
