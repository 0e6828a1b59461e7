package fabric

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
)

// All invalid arguments cause a typed error.
func TestBadInput(t *testing.T) {
	f := New(Config{})
	defer f.Close()
	h := f.AddHost(HostConfig{Limits: func(a *rdma.DeviceAttr) {
		a.MaxAH, a.MaxMR, a.MaxPD, a.MaxCQ, a.MaxQP, a.MaxTotalMcastQPAttach = 1, 2, 2, 2, 2, 1
	}})
	p, stranger := newPeer(t, h), newPeer(t, f.AddHost(HostConfig{}))
	ah := p.join(testGroup(1), rdma.JoinFullMember)
	qpAttr := func(edit func(*rdma.QPInitAttr)) error {
		a := rdma.QPInitAttr{SendCQ: p.cq, RecvCQ: p.cq}
		edit(&a)
		_, err := p.pd.CreateQP(a)
		return err
	}
	send := func(edit func(*rdma.SendWR)) error {
		wr := p.sendWR(ah, "x")
		edit(&wr)
		_, err := p.qp.PostSend([]rdma.SendWR{wr})
		return err
	}
	ret := func(_ any, err error) error { return err }
	unbound, err := p.ch.CreateID(rdma.PortSpaceUDP, nil)
	if err != nil {
		t.Fatal(err)
	}
	mcastAH := ah.Attr()
	for _, c := range []struct {
		name string
		err  error
		want syscall.Errno
	}{
		{"OpenDevice of nothing", ret(h.OpenDevice("sim9")), syscall.ENODEV},
		{"Port 0", ret(p.dev.Port(0)), syscall.EINVAL},
		{"Port 2", ret(p.dev.Port(2)), syscall.EINVAL},
		{"GIDs of port 9", ret(p.dev.GIDs(9)), syscall.EINVAL},
		{"PKeys of port 9", ret(p.dev.PKeys(9)), syscall.EINVAL},
		{"CQ of size 0", ret(p.dev.CreateCQ(0, nil, nil)), syscall.EINVAL},
		{"CQ of size -1", ret(p.dev.CreateCQ(-1, nil, nil)), syscall.EINVAL},
		{"CQ too large", ret(p.dev.CreateCQ(1<<30, nil, nil)), syscall.EINVAL},
		{"MR without memory", ret(p.pd.RegisterMemory(nil, rdma.AccessLocalWrite)), syscall.EINVAL},
		{"MR with remote rights only", ret(p.pd.RegisterMemory(make([]byte, 1), rdma.AccessRemoteWrite)), syscall.EINVAL},
		{"QP without CQ", ret(p.pd.CreateQP(rdma.QPInitAttr{})), syscall.EINVAL},
		{"QP with another device's CQ", qpAttr(func(a *rdma.QPInitAttr) { a.RecvCQ = stranger.cq }), syscall.EINVAL},
		{"QP type 77", qpAttr(func(a *rdma.QPInitAttr) { a.Type = 77 }), syscall.EINVAL},
		{"QP of size -1", qpAttr(func(a *rdma.QPInitAttr) { a.Cap.MaxSendWR = -1 }), syscall.EINVAL},
		{"QP too large", qpAttr(func(a *rdma.QPInitAttr) { a.Cap.MaxRecvWR = 1 << 30 }), syscall.EINVAL},
		{"QP with too many elements", qpAttr(func(a *rdma.QPInitAttr) { a.Cap.MaxRecvSGE = 1 << 20 }), syscall.EINVAL},
		{"QP with too much inline", qpAttr(func(a *rdma.QPInitAttr) { a.Cap.MaxInlineData = 1 << 20 }), syscall.EINVAL},
		{"QP with unknown flags", qpAttr(func(a *rdma.QPInitAttr) { a.Flags = 1 << 20 }), syscall.EOPNOTSUPP},
		{"AH of port 9", ret(p.pd.CreateAH(rdma.AHAttr{Port: 9})), syscall.EINVAL},
		{"AH of GID 9", ret(p.pd.CreateAH(rdma.AHAttr{Port: 1, IsGlobal: true, GRH: rdma.GRH{SGIDIndex: 9}})), syscall.EINVAL},
		{"second AH", ret(p.pd.CreateAH(mcastAH)), syscall.ENOMEM},
		{"send without AH", send(func(w *rdma.SendWR) { w.AH = nil }), syscall.EINVAL},
		{"send with opcode 0", send(func(w *rdma.SendWR) { w.Opcode = 0 }), syscall.EINVAL},
		{"send of too much inline", send(func(w *rdma.SendWR) { w.Flags = rdma.SendInline; w.SG[0].Buf = p.mem[:65] }), syscall.EINVAL},
		{"send of too many bytes", send(func(w *rdma.SendWR) { w.SG[0].Buf = p.mem[:4097] }), syscall.EMSGSIZE},
		{"receive with too many elements", ret(p.qp.PostRecv([]rdma.RecvWR{{SG: make([]rdma.SGE, 3)}})), syscall.EINVAL},
		{"modify to state 99", p.qp.Modify(rdma.QPAttr{State: 99}, rdma.QPMaskState), syscall.EINVAL},
		{"modify of unknown bits", p.qp.Modify(rdma.QPAttr{}, 1<<30), syscall.EINVAL},
		{"wrong current state", p.qp.Modify(rdma.QPAttr{CurState: rdma.QPInit}, rdma.QPMaskCurState), syscall.EINVAL},
		{"one attachment above the total limit", p.qp.AttachMcast(rdma.GID{0: 0xff, 15: 1}, 0xC005), syscall.ENOMEM},
		{"id with an unknown port space", ret(p.ch.CreateID(7, nil)), syscall.EINVAL},
		{"QP on an unbound id", ret(unbound.CreateQP(p.pd, rdma.QPInitAttr{})), syscall.EINVAL},
		{"second QP", ret(p.id.CreateQP(p.pd, rdma.QPInitAttr{})), syscall.EINVAL},
		{"no PD", ret(stranger.id.CreateQP(nil, rdma.QPInitAttr{})), syscall.EINVAL},
		{"PD of another device", ret(stranger.id.CreateQP(p.pd, rdma.QPInitAttr{})), syscall.EINVAL},
		{"DestroyQP without a QP", unbound.DestroyQP(), syscall.EINVAL},
		{"Device of an unbound id", ret(unbound.Device()), syscall.EINVAL},
		{"Local of an unbound id", ret(unbound.Local()), syscall.EINVAL},
		{"ResolveAddr without an address", unbound.ResolveAddr(rdma.Addr{}, rdma.Addr{}, time.Second), syscall.EINVAL},
		{"ResolveRoute too early", unbound.ResolveRoute(time.Second), syscall.EINVAL},
		{"leave on an unbound id", ret(unbound.BeginLeave(testGroup(1))), syscall.EADDRNOTAVAIL},
		{"bind to an unknown address", unbound.Bind(rdma.IBAddr(rdma.GID{15: 1})), syscall.ENODEV},
	} {
		var typed *rdma.Error
		if !errors.Is(c.err, c.want) || !errors.As(c.err, &typed) {
			t.Errorf("%s: %v, want errno %d", c.name, c.err, int(c.want))
		}
	}
	if unbound.QP() != nil || unbound.Port() != 0 || unbound.LocalAddr() != (rdma.Addr{}) {
		t.Error("an unbound id has a port, an address or a QP")
	}
	if n, err := p.qp.PostSend(nil); n != 0 || err != nil {
		t.Errorf("PostSend of nothing posted %d, error %v, want 0 and none", n, err)
	}
	if n, err := p.cq.Poll(nil); n != 0 || err != nil {
		t.Errorf("Poll for nothing returns %d, error %v, want 0 and none", n, err)
	}
	// A bound port number cannot be bound again.
	a := h.Addr()
	a.Port = 7000
	other, _ := p.ch.CreateID(rdma.PortSpaceUDP, nil)
	if err := unbound.Bind(a); err != nil {
		t.Fatal(err)
	}
	wantErrno(t, "second bind to a port", other.Bind(a), syscall.EADDRINUSE)
}

// Closing an object in use returns EBUSY. Every call on a closed object returns an error, including Close.
func TestTeardown(t *testing.T) {
	f := New(Config{})
	defer f.Close()
	h := f.AddHost(HostConfig{})
	dev, err := h.OpenDevice("sim0")
	if err != nil {
		t.Fatal(err)
	}
	var comp rdma.CompChannel
	p := newPeerWith(t, h, peerAttr(), 64, func(d rdma.Device) rdma.CompChannel { comp, _ = d.NewCompChannel(); return comp })
	ah := p.join(testGroup(1), rdma.JoinFullMember)
	for name, err := range map[string]error{
		"QP": p.qp.Close(), "id's QP": p.id.DestroyQP(), "CQ": p.cq.Close(), "PD": p.pd.Close(),
		"event channel": p.ch.Close(), "completion channel": comp.Close(),
	} {
		wantErrno(t, name+" in use", err, syscall.EBUSY)
	}
	wantErrno(t, "the id's device", p.dev.Close(), syscall.EINVAL)
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	wantErrno(t, "device in use", dev.Close(), syscall.EBUSY)
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s failed: %v", what, err)
		}
	}
	must("other PD", pd.Close())
	must("device", dev.Close())
	p.leave(testGroup(1))
	must("AH", ah.Close())
	wantErrno(t, "send with a closed AH", func() error { _, err := p.qp.PostSend([]rdma.SendWR{p.sendWR(ah, "x")}); return err }(), syscall.EBADF)
	must("QP", p.id.DestroyQP())
	must("MR", p.mr.Close())
	must("CQ", p.cq.Close())
	must("completion channel", comp.Close())
	must("PD", p.pd.Close())
	must("id", p.id.Destroy(context.Background()))
	must("event channel", p.ch.Close())

	ctx := context.Background()
	for name, err := range map[string]error{
		"device": dev.Close(), "device attr": second(dev.Attr()), "device PD": second(dev.AllocPD()), "async": second(dev.GetAsyncEvent(ctx)),
		"AH": ah.Close(), "QP": p.qp.Close(), "MR": p.mr.Close(), "CQ": p.cq.Close(), "comp": comp.Close(), "PD": p.pd.Close(),
		"comp wait": second(comp.Wait(ctx)), "comp try": second(comp.TryWait()),
		"post send": second(p.qp.PostSend(make([]rdma.SendWR, 1))), "post recv": second(p.qp.PostRecv(make([]rdma.RecvWR, 1))),
		"attach": p.qp.AttachMcast(rdma.GID{0: 0xff}, 0xC000), "detach": p.qp.DetachMcast(rdma.GID{}, 0),
		"modify": p.qp.Modify(rdma.QPAttr{}, rdma.QPMaskState), "query": second(p.qp.Query()),
		"poll": second(p.cq.Poll(p.wcs)), "notify": p.cq.RequestNotify(false),
		"PD MR": second(p.pd.RegisterMemory(p.mem, 0)), "PD AH": second(p.pd.CreateAH(rdma.AHAttr{})), "PD QP": second(p.pd.CreateQP(rdma.QPInitAttr{})),
		"id": p.id.Destroy(ctx), "id bind": p.id.Bind(h.Addr()), "id join": p.id.JoinMulticast(testGroup(1), nil),
		"id leave": p.id.LeaveMulticast(ctx, testGroup(1)), "id device": second(p.id.Device()), "id QP": p.id.DestroyQP(),
		"id resolve": p.id.ResolveAddr(rdma.Addr{}, testGroup(1), 0), "id route": p.id.ResolveRoute(0),
		"channel": p.ch.Close(), "channel event": second(p.ch.GetEvent(ctx)), "channel id": second(p.ch.CreateID(rdma.PortSpaceUDP, nil)),
	} {
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s after close: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// After the removal of a device its objects return errors and can be closed.
func TestDeviceRemoval(t *testing.T) {
	f := New(Config{})
	defer f.Close()
	h := f.AddHost(HostConfig{})
	p, other := newPeer(t, h), newPeer(t, f.AddHost(HostConfig{}))
	ah := p.join(testGroup(1), rdma.JoinFullMember)
	p.post(2)
	dev, err := h.OpenDevice("sim0")
	if err != nil {
		t.Fatal(err)
	}
	h.RemoveDevice(0)
	h.RemoveDevice(0)
	if ev := p.event(); ev.Type != rdma.EventDeviceRemoval || !errors.Is(ev.Err(), syscall.ENODEV) {
		t.Errorf("event %v, error %v, want a device removal and ENODEV", ev.Type, ev.Err())
	}
	if ev, err := dev.TryGetAsyncEvent(); err != nil || ev.Type != rdma.AsyncDeviceFatal {
		t.Errorf("async event %+v, %v, want %v", ev, err, rdma.AsyncDeviceFatal)
	}
	if wcs := p.poll(); len(wcs) != 2 || wcs[0].Status != rdma.WCWRFlushErr {
		t.Errorf("completions %+v, want 2, flushed", wcs)
	}
	wantErrno(t, "query", second(dev.Attr()), syscall.ENODEV)
	wantErrno(t, "open", second(h.OpenDevice("sim0")), syscall.ENODEV)
	if f.Members(p.mgid(testGroup(1))) != nil {
		t.Error("the subnet still has the port as a member")
	}
	other.join(testGroup(1), rdma.JoinFullMember)
	p.leave(testGroup(1))
	for what, err := range map[string]error{"AH": ah.Close(), "QP": p.id.DestroyQP()} {
		if err != nil {
			t.Errorf("%s cannot be closed: %v", what, err)
		}
	}
	for _, c := range []interface{ Close() error }{p.mr, p.cq, p.pd, dev} {
		if err := c.Close(); err != nil {
			t.Errorf("%T cannot be closed: %v", c, err)
		}
	}
	if err := p.id.Destroy(context.Background()); err != nil {
		t.Error(err)
	}
}
