//go:build rdma && linux && cgo

package verbs

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/rdma"
)

// testTimeout bounds waits for expected events. Tests do not otherwise depend on it.
const testTimeout = 20 * time.Second

// rig is an id with a queue pair on a host, and the objects needed to send and receive.
type rig struct {
	t    testing.TB
	host testHost
	ch   rdma.EventChannel
	id   rdma.ID
	dev  rdma.Device
	comp rdma.CompChannel
	pd   rdma.PD
	cq   rdma.CQ
	qp   rdma.QP
	mem  []byte
	mr   rdma.MR
	ahs  []rdma.AH
	in   []rdma.Addr // joined groups
}

const (
	rigDepth = 32
	rigSlot  = rdma.GRHBytes + 4096
)

func newRig(t testing.TB, h testHost) *rig {
	t.Helper()
	r := &rig{t: t, host: h}
	p, err := Open()
	r.must(err)
	r.ch, err = p.NewEventChannel()
	r.must(err)
	r.id, err = r.ch.CreateID(rdma.PortSpaceUDP, r)
	r.must(err)
	r.must(r.id.Bind(h.addr))
	r.dev, err = r.id.Device()
	r.must(err)
	r.comp, err = r.dev.NewCompChannel()
	r.must(err)
	r.pd, err = r.dev.AllocPD()
	r.must(err)
	r.cq, err = r.dev.CreateCQ(4*rigDepth, r.comp, nil)
	r.must(err)
	r.mem, err = sys.Alloc(2 * rigDepth * rigSlot)
	r.must(err)
	r.mr, err = r.pd.RegisterMemory(r.mem, rdma.AccessLocalWrite)
	r.must(err)
	r.qp, err = r.id.CreateQP(r.pd, rdma.QPInitAttr{SendCQ: r.cq, RecvCQ: r.cq, Cap: rdma.QPCap{MaxSendWR: rigDepth, MaxRecvWR: rigDepth, MaxInlineData: 64}})
	r.must(err)
	t.Cleanup(r.close)
	return r
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// close closes everything, in the order of package rdma, if not done before.
func (r *rig) close() {
	if r.ch == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	for _, g := range r.in {
		r.must(r.id.LeaveMulticast(ctx, g))
	}
	for _, a := range r.ahs {
		r.must(a.Close())
	}
	if r.id.QP() != nil {
		r.must(r.id.DestroyQP())
	}
	r.must(r.cq.Close())
	r.must(r.comp.Close())
	r.must(r.mr.Close())
	r.must(r.pd.Close())
	r.must(r.id.Destroy(ctx))
	r.must(r.ch.Close())
	sys.Free(r.mem)
	r.ch = nil
}

// event waits for the next event and acknowledges it.
func (r *rig) event() *rdma.Event {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	ev, err := r.ch.GetEvent(ctx)
	r.must(err)
	r.must(ev.Ack())
	return ev
}

// join joins a group and returns an address handle to it.
func (r *rig) join(g rdma.Addr, flags rdma.JoinFlags) rdma.AH {
	r.t.Helper()
	r.must(r.id.JoinMulticastEx(rdma.JoinAttr{CompMask: rdma.JoinMaskAddress | rdma.JoinMaskFlags, Flags: flags, Addr: g}, nil))
	r.in = append(r.in, g)
	ev := r.event()
	r.must(ev.Err())
	ah, err := r.pd.CreateAH(ev.UD.AHAttr)
	r.must(err)
	r.ahs = append(r.ahs, ah)
	return ah
}

// recvWR returns a receive into slot i, and sendWR a send of text from the memory after the receives.
func (r *rig) recvWR(i int) rdma.RecvWR {
	return rdma.RecvWR{WRID: uint64(i), SG: []rdma.SGE{{Buf: r.mem[i*rigSlot:][:rigSlot], LKey: r.mr.LKey()}}}
}

func (r *rig) sendWR(ah rdma.AH, text string) rdma.SendWR {
	buf := r.mem[rigDepth*rigSlot:]
	return rdma.SendWR{SG: []rdma.SGE{{Buf: buf[:copy(buf[:rigSlot], text)], LKey: r.mr.LKey()}}, Opcode: rdma.OpSend,
		Flags: rdma.SendSignaled, AH: ah, QPN: rdma.MulticastQPN, QKey: rdma.UDPQKey}
}

// post posts all receives.
func (r *rig) post() {
	r.t.Helper()
	wrs := make([]rdma.RecvWR, rigDepth)
	for i := range wrs {
		wrs[i] = r.recvWR(i)
	}
	n, err := r.qp.PostRecv(wrs)
	r.must(err)
	if n != len(wrs) {
		r.t.Fatalf("posted %d receives, want %d", n, len(wrs))
	}
}

// poll waits for want completions.
func (r *rig) poll(want int) (wcs []rdma.WorkCompletion) {
	r.t.Helper()
	var batch [16]rdma.WorkCompletion
	for deadline := time.Now().Add(testTimeout); len(wcs) < want; {
		n, err := r.cq.Poll(batch[:])
		r.must(err)
		wcs = append(wcs, batch[:n]...)
		if n == 0 {
			if time.Now().After(deadline) {
				r.t.Fatalf("%d completions, want %d: %+v", len(wcs), want, wcs)
			}
			time.Sleep(time.Millisecond)
		}
	}
	return wcs
}

func testGroup(x byte) rdma.Addr { return rdma.IPAddr(netip.AddrFrom4([4]byte{239, 78, 0, x})) }

// needHosts returns testHosts, and skips the test if they are fewer than n.
func needHosts(t testing.TB, n int) []testHost {
	t.Helper()
	hosts := testHosts(t)
	if len(hosts) < n {
		t.Skipf("%d RDMA ports are needed, but there are %d", n, len(hosts))
	}
	return hosts
}
