//go:build rdma && linux && cgo

package verbs

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"

	"github.com/fanfaremq/fanfare/rdma"
)

func wantErrno(t testing.TB, what string, err error, want syscall.Errno) {
	t.Helper()
	var errno syscall.Errno
	if !errors.As(err, &errno) || errno != want {
		t.Errorf("%s: error %v (errno %d), want errno %d (%v)", what, err, int(errno), int(want), want)
	}
}

// Details of S021 and S022: ENODEV is returned for an address of an interface without RDMA, and of 0.0.0.0/8 only
// 0.0.0.0 is rejected.
func TestBindAndJoinErrors(t *testing.T) {
	hosts := testHosts(t)
	if !*ownKernel {
		t.Skip("the test makes a network interface: -verbs.ownkernel")
	}
	plainInterface(t, "192.0.2.7/24")
	r := newRig(t, hosts[0])
	id, err := r.ch.CreateID(rdma.PortSpaceUDP, nil)
	r.must(err)
	defer id.BeginDestroy()
	wantErrno(t, "bind to an interface without RDMA", id.Bind(rdma.IPAddr(netip.MustParseAddr("192.0.2.7"))), syscall.ENODEV)
	if err := id.Bind(rdma.IPAddr(netip.MustParseAddr("198.51.100.1"))); !errors.Is(err, syscall.EADDRNOTAVAIL) && !errors.Is(err, syscall.ENODEV) {
		t.Errorf("bind to an unknown address fails with %v, want EADDRNOTAVAIL or ENODEV", err) // the errno depends on the routes
	}
	wantErrno(t, "join of 0.0.0.0", r.id.JoinMulticast(rdma.IPAddr(netip.IPv4Unspecified()), nil), syscall.EINVAL)
}

// S055 with the device's limit: an attachment that fails while the event is retrieved is MULTICAST_ERROR with status -1
// and the errno, and the membership stays until it is left.
func TestAttachLimit(t *testing.T) {
	r := newRig(t, testHosts(t)[0])
	attr, err := r.dev.Attr()
	r.must(err)
	if attr.MaxMcastQPAttach > 1000 {
		t.Skipf("the device can attach %d queue pairs to a group", attr.MaxMcastQPAttach)
	}
	g := testGroup(55)
	for range attr.MaxMcastQPAttach {
		qp, err := r.pd.CreateQP(rdma.QPInitAttr{SendCQ: r.cq, RecvCQ: r.cq, Cap: rdma.QPCap{MaxSendWR: 1, MaxRecvWR: 1}})
		r.must(err)
		r.must(qp.AttachMcast(rdma.GIDFromIP(g.IP), 0))
		defer func() {
			r.must(qp.DetachMcast(rdma.GIDFromIP(g.IP), 0))
			r.must(qp.Close())
		}()
	}
	r.must(r.id.JoinMulticast(g, "mine"))
	r.in = append(r.in, g)
	ev := r.event()
	if ev.Type != rdma.EventMulticastError || ev.Status != -1 || ev.Context != "mine" || ev.UD.AHAttr.GRH.DGID != rdma.GIDFromIP(g.IP) {
		t.Errorf(`event %+v, want an error with status -1 and context "mine" for %v`, ev, g)
	}
	wantErrno(t, "event", ev.Err(), syscall.ENOMEM)
}

// S102 with rxe of kernel 6.1: a too small buffer puts the queue pair into state ERR, which a completion and the state
// report. It works again after RESET.
func TestShortBuffer(t *testing.T) {
	hosts := needHosts(t, 2)
	to, from := newRig(t, hosts[0]), newRig(t, hosts[1])
	g := testGroup(102)
	to.join(g, rdma.JoinFullMember)
	ah := from.join(g, rdma.JoinSendOnlyFullMember)
	wr := to.recvWR(0)
	wr.SG[0].Buf = wr.SG[0].Buf[:rdma.GRHBytes+4]
	_, err := to.qp.PostRecv([]rdma.RecvWR{wr, to.recvWR(1)})
	to.must(err)
	send := func(text string) {
		t.Helper()
		_, err := from.qp.PostSend([]rdma.SendWR{from.sendWR(ah, text)})
		from.must(err)
		from.poll(1)
	}
	send("hello")
	wc := to.poll(1)[0]
	if wc.Status == rdma.WCSuccess && wc.WRID == 0 {
		t.Fatalf("a truncated message was delivered: %+v", wc)
	}
	attr, err := to.qp.Query()
	to.must(err)
	if attr.State != rdma.QPErr {
		t.Skipf("this kernel keeps the queue pair in %v", attr.State)
	}
	for _, step := range []struct {
		to   rdma.QPState
		mask rdma.QPAttrMask
	}{{rdma.QPReset, 0}, {rdma.QPInit, rdma.QPMaskPKeyIndex | rdma.QPMaskPort | rdma.QPMaskQKey}, {rdma.QPRTR, 0}, {rdma.QPRTS, rdma.QPMaskSQPSN}} {
		to.must(to.qp.Modify(rdma.QPAttr{State: step.to, Port: to.id.Port(), QKey: rdma.UDPQKey}, step.mask|rdma.QPMaskState))
	}
	for _, wc := range to.poll(0) {
		t.Logf("flushed completion %+v", wc)
	}
	to.post()
	send("again")
	if wc := to.poll(1)[0]; wc.Status != rdma.WCSuccess || string(to.mem[int(wc.WRID)*rigSlot+rdma.GRHBytes:][:5]) != "again" {
		t.Errorf(`completion %+v, want success and the text "again"`, wc)
	}
}
