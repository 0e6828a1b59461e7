package fabric

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
)

// peer is an id with a queue pair on a host, for tests of the fabric rather than of the calls.
type peer struct {
	t   testing.TB
	f   *Fabric
	ch  rdma.EventChannel
	id  rdma.ID
	dev rdma.Device
	pd  rdma.PD
	mr  rdma.MR
	cq  rdma.CQ
	qp  rdma.QP
	mem []byte
	wcs []rdma.WorkCompletion
}

const (
	peerSlots = 64
	peerSlot  = rdma.GRHBytes + 1024
)

// peerAttr returns the default sizes of a peer's queues.
func peerAttr() rdma.QPInitAttr {
	return rdma.QPInitAttr{Cap: rdma.QPCap{MaxSendWR: 16, MaxRecvWR: peerSlots, MaxSendSGE: 2, MaxRecvSGE: 2, MaxInlineData: 64}}
}

func newPeer(t testing.TB, h *Host) *peer {
	t.Helper()
	return newPeerWith(t, h, peerAttr(), 1024, nil)
}

func newPeerWith(t testing.TB, h *Host, attr rdma.QPInitAttr, cqe int, comp func(rdma.Device) rdma.CompChannel) *peer {
	t.Helper()
	p := &peer{t: t, f: h.f, mem: make([]byte, peerSlots*peerSlot), wcs: make([]rdma.WorkCompletion, 64)}
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	p.ch, err = h.NewEventChannel()
	ok(err)
	p.id, err = p.ch.CreateID(rdma.PortSpaceUDP, nil)
	ok(err)
	ok(p.id.Bind(h.Addr()))
	p.dev, err = p.id.Device()
	ok(err)
	p.pd, err = p.dev.AllocPD()
	ok(err)
	p.mr, err = p.pd.RegisterMemory(p.mem, rdma.AccessLocalWrite)
	ok(err)
	var ch rdma.CompChannel
	if comp != nil {
		ch = comp(p.dev)
	}
	p.cq, err = p.dev.CreateCQ(cqe, ch, p)
	ok(err)
	attr.SendCQ, attr.RecvCQ = p.cq, p.cq
	p.qp, err = p.id.CreateQP(p.pd, attr)
	ok(err)
	return p
}

// run advances a stepped fabric by a second.
func (p *peer) run() { p.f.AdvanceTo(p.f.Now() + time.Second) }

// event retrieves and acknowledges an event, and fails the test if there is none.
func (p *peer) event() *rdma.Event {
	p.t.Helper()
	ev, err := p.ch.TryGetEvent()
	if err != nil {
		p.t.Fatalf("the channel has no event: %v", err)
	}
	if err := ev.Ack(); err != nil {
		p.t.Fatal(err)
	}
	return ev
}

// join joins a group on a stepped fabric and returns its address handle.
func (p *peer) join(group rdma.Addr, flags rdma.JoinFlags) rdma.AH {
	p.t.Helper()
	if err := p.id.JoinMulticastEx(rdma.JoinAttr{CompMask: 3, Flags: flags, Addr: group}, nil); err != nil {
		p.t.Fatal(err)
	}
	p.run()
	ev := p.event()
	if err := ev.Err(); err != nil {
		p.t.Fatal(err)
	}
	return p.ah(ev)
}

func (p *peer) ah(ev *rdma.Event) rdma.AH {
	p.t.Helper()
	ah, err := p.pd.CreateAH(ev.UD.AHAttr)
	if err != nil {
		p.t.Fatal(err)
	}
	return ah
}

func (p *peer) recvWR(slot int) rdma.RecvWR {
	return rdma.RecvWR{WRID: uint64(slot), SG: []rdma.SGE{{Buf: p.mem[slot*peerSlot:][:peerSlot], LKey: p.mr.LKey()}}}
}

// post posts the first slots.
func (p *peer) post(n int) {
	p.t.Helper()
	for i := range n {
		if _, err := p.qp.PostRecv([]rdma.RecvWR{p.recvWR(i)}); err != nil {
			p.t.Fatal(err)
		}
	}
}

// sendWR returns a signaled send of the last slot with data.
func (p *peer) sendWR(ah rdma.AH, data string) rdma.SendWR {
	buf := p.mem[(peerSlots-1)*peerSlot:]
	return rdma.SendWR{SG: []rdma.SGE{{Buf: buf[:copy(buf, data)], LKey: p.mr.LKey()}}, Opcode: rdma.OpSend,
		Flags: rdma.SendSignaled, AH: ah, QKey: rdma.UDPQKey}
}

func (p *peer) send(ah rdma.AH, data string) {
	p.t.Helper()
	if _, err := p.qp.PostSend([]rdma.SendWR{p.sendWR(ah, data)}); err != nil {
		p.t.Fatal(err)
	}
}

// poll returns the completions.
func (p *peer) poll() []rdma.WorkCompletion {
	p.t.Helper()
	n, err := p.cq.Poll(p.wcs)
	if err != nil {
		p.t.Fatal(err)
	}
	return p.wcs[:n]
}

// received returns the data of the completed receives.
func (p *peer) received() []string {
	p.t.Helper()
	var data []string
	for _, wc := range p.poll() {
		if wc.Opcode == rdma.WCRecv && wc.Status == rdma.WCSuccess {
			data = append(data, string(p.mem[int(wc.WRID)*peerSlot+rdma.GRHBytes:][:wc.ByteLen-rdma.GRHBytes]))
		}
	}
	return data
}

func testGroup(i int) rdma.Addr {
	return rdma.IPAddr(netip.AddrFrom4([4]byte{239, byte(i >> 16), byte(i >> 8), byte(i)}))
}

func wantErrno(t testing.TB, what string, err error, want syscall.Errno) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want errno %d", what, err, int(want))
	}
}
