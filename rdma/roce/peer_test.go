//go:build linux

package roce

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/rdma"
)

// peer is an id with a queue pair and memory for it.
type peer struct {
	t    testing.TB
	p    *Provider
	dev  rdma.Device
	ch   rdma.EventChannel
	id   rdma.ID
	pd   rdma.PD
	mr   rdma.MR
	cc   rdma.CompChannel
	cq   rdma.CQ
	qp   rdma.QP
	mem  []byte
	ahs  []rdma.AH
	join []rdma.Addr

	next int // receive slot
	wcs  [64]rdma.WorkCompletion
}

const (
	peerSlots = 256 // for receiving, and as many for sending
	slotBytes = rdma.GRHBytes + 4096
)

// message is a received datagram.
type message struct {
	wc   rdma.WorkCompletion
	area [rdma.GRHBytes]byte
	data string
}

// newPeer makes a peer on the first device of a provider.
func newPeer(t testing.TB, p *Provider) *peer {
	t.Helper()
	return newPeerAt(t, p, p.devices[0].link.addrs[0])
}

func newPeerAt(t testing.TB, p *Provider, ip netip.Addr) *peer {
	t.Helper()
	n := &peer{t: t, p: p}
	var err error
	n.ch, err = p.NewEventChannel()
	must(t, "event channel", err)
	n.id, err = n.ch.CreateID(rdma.PortSpaceUDP, nil)
	must(t, "id", err)
	must(t, "bind", n.id.Bind(rdma.IPAddr(ip)))
	n.dev, err = n.id.Device()
	must(t, "device", err)
	n.pd, err = n.dev.AllocPD()
	must(t, "PD", err)
	n.mem, err = sys.Alloc(2 * peerSlots * slotBytes)
	must(t, "memory", err)
	n.mr, err = n.pd.RegisterMemory(n.mem, rdma.AccessLocalWrite)
	must(t, "MR", err)
	n.cc, err = n.dev.NewCompChannel()
	must(t, "completion channel", err)
	n.cq, err = n.dev.CreateCQ(4*peerSlots, n.cc, nil)
	must(t, "CQ", err)
	n.qp, err = n.id.CreateQP(n.pd, rdma.QPInitAttr{SendCQ: n.cq, RecvCQ: n.cq, Cap: rdma.QPCap{MaxSendWR: peerSlots, MaxRecvWR: peerSlots}})
	must(t, "QP", err)
	n.post(peerSlots)
	t.Cleanup(n.close)
	return n
}

func (n *peer) post(count int) {
	for range count {
		slot := n.next % peerSlots
		n.next++
		_, err := n.qp.PostRecv([]rdma.RecvWR{{WRID: uint64(slot), SG: []rdma.SGE{{Buf: n.mem[slot*slotBytes:][:slotBytes], LKey: n.mr.LKey()}}}})
		must(n.t, "post receive", err)
	}
}

// enter joins a group and returns its address handle.
func (n *peer) enter(group string, flags rdma.JoinFlags) rdma.AH {
	n.t.Helper()
	a, err := rdma.ParseAddr(group)
	must(n.t, "group", err)
	must(n.t, "join", n.id.JoinMulticastEx(rdma.JoinAttr{CompMask: rdma.JoinMaskAddress | rdma.JoinMaskFlags, Flags: flags, Addr: a}, nil))
	n.join = append(n.join, a)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	ev, err := n.ch.GetEvent(ctx)
	must(n.t, "event", err)
	must(n.t, "join", ev.Err())
	ah := n.to(ev.UD.AHAttr)
	must(n.t, "ack", ev.Ack())
	return ah
}

func (n *peer) to(attr rdma.AHAttr) rdma.AH {
	n.t.Helper()
	ah, err := n.pd.CreateAH(attr)
	must(n.t, "AH", err)
	n.ahs = append(n.ahs, ah)
	return ah
}

// unicast makes an address handle to another port.
func (n *peer) unicast(ip netip.Addr) rdma.AH {
	n.t.Helper()
	local, err := n.id.Local()
	must(n.t, "local side", err)
	return n.to(rdma.AHAttr{GRH: rdma.GRH{DGID: rdma.GIDFromIP(ip), SGIDIndex: local.SGIDIndex, HopLimit: 64}, IsGlobal: true, Port: 1})
}

// wrs returns sends of messages, for send.
func (n *peer) wrs(ah rdma.AH, qpn rdma.QPN, msgs ...string) []rdma.SendWR {
	var list []rdma.SendWR
	for i, m := range msgs {
		buf := n.mem[(peerSlots+i)*slotBytes:][:copy(n.mem[(peerSlots+i)*slotBytes:][:slotBytes], m)]
		wr := rdma.SendWR{SG: []rdma.SGE{{Buf: buf, LKey: n.mr.LKey()}}, Opcode: rdma.OpSend, AH: ah, QPN: qpn, QKey: rdma.UDPQKey}
		if i == len(msgs)-1 {
			wr.Flags = rdma.SendSignaled
		}
		list = append(list, wr)
	}
	return list
}

// send posts sends in one call and waits for the completion of the last.
func (n *peer) send(wrs []rdma.SendWR) {
	n.t.Helper()
	_, err := n.qp.PostSend(wrs)
	must(n.t, "post send", err)
}

// poll receives the messages that have arrived.
func (n *peer) poll() (msgs []message) {
	n.t.Helper()
	k, err := n.cq.Poll(n.wcs[:])
	must(n.t, "poll", err)
	for _, wc := range n.wcs[:k] {
		if wc.Status != rdma.WCSuccess {
			n.t.Fatalf("completion with an error: %+v", wc)
		}
		if wc.Opcode == rdma.WCRecv {
			slot := n.mem[wc.WRID*slotBytes:]
			msgs = append(msgs, message{wc, [rdma.GRHBytes]byte(slot), string(slot[rdma.GRHBytes:wc.ByteLen])})
			n.post(1)
		}
	}
	return msgs
}

// wait polls until want messages have arrived.
func (n *peer) wait(want int) []message {
	n.t.Helper()
	var msgs []message
	for until := time.Now().Add(20 * time.Second); len(msgs) < want; {
		got := n.poll()
		msgs = append(msgs, got...)
		if len(got) == 0 {
			if time.Now().After(until) {
				n.t.Fatalf("%d messages received, want %d; counters %s", len(msgs), want, n.stats())
			}
			time.Sleep(50 * time.Microsecond)
		}
	}
	return msgs
}

// none checks that no message arrives.
func (n *peer) none(what string) {
	n.t.Helper()
	for range 3 {
		if msgs := n.poll(); len(msgs) > 0 {
			n.t.Errorf("%s: received %q, want nothing", what, msgs)
		}
		time.Sleep(100 * time.Microsecond)
	}
}

func (n *peer) counters() Stats { return n.p.devices[0].count.load() }

func (n *peer) stats() string { return fmt.Sprintf("%+v", n.counters()) }

func (n *peer) close() {
	for _, g := range n.join {
		if p, err := n.id.BeginLeave(g); err != nil || !p.Done() {
			n.t.Errorf("leaving %v failed: %v", g, err)
		}
	}
	for _, ah := range n.ahs {
		must(n.t, "close AH", ah.Close())
	}
	must(n.t, "destroy QP", n.id.DestroyQP())
	must(n.t, "close CQ", n.cq.Close())
	must(n.t, "close channel", n.cc.Close())
	must(n.t, "close MR", n.mr.Close())
	must(n.t, "close PD", n.pd.Close())
	must(n.t, "destroy id", n.id.Destroy(context.Background()))
	must(n.t, "close event channel", n.ch.Close())
	sys.Free(n.mem)
}
