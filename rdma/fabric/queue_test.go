package fabric

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
)

// pair makes a sender and a receiver in one group of a stepped fabric.
func pair(t *testing.T, cfg Config, attr rdma.QPInitAttr, cqe int) (from, to *peer, ah rdma.AH) {
	t.Helper()
	f := New(cfg)
	t.Cleanup(func() { f.Close() })
	from, to = newPeerWith(t, f.AddHost(HostConfig{}), attr, cqe, nil), newPeer(t, f.AddHost(HostConfig{}))
	ah = from.join(testGroup(1), rdma.JoinSendOnlyFullMember)
	to.join(testGroup(1), rdma.JoinFullMember)
	return from, to, ah
}

// The places of unsignaled sends are free only when a later completion is polled.
func TestSelectiveSignalling(t *testing.T) {
	from, _, ah := pair(t, Config{}, peerAttr(), 64)
	wrs := make([]rdma.SendWR, 16)
	for i := range wrs {
		wrs[i] = from.sendWR(ah, "x")
		wrs[i].WRID = uint64(i)
		if i != 7 {
			wrs[i].Flags = 0
		}
	}
	if n, err := from.qp.PostSend(wrs); n != 16 || err != nil {
		t.Fatalf("posted %d sends, error %v, want 16", n, err)
	}
	if _, err := from.qp.PostSend(wrs[:1]); !errors.Is(err, syscall.ENOMEM) {
		t.Fatalf("the send queue is full, but the error is %v", err)
	}
	if wcs := from.poll(); len(wcs) != 1 || wcs[0].WRID != 7 {
		t.Fatalf("completions %+v, want one of work request 7", wcs)
	}
	n, err := from.qp.PostSend(wrs)
	if n != 8 || !errors.Is(err, syscall.ENOMEM) { // the first eight became free
		t.Fatalf("posted %d sends, error %v, want 8 and ENOMEM", n, err)
	}
}

func TestSignalAll(t *testing.T) {
	attr := peerAttr()
	attr.SignalAll = true
	from, _, ah := pair(t, Config{}, attr, 64)
	wr := from.sendWR(ah, "x")
	wr.Flags = 0
	if _, err := from.qp.PostSend([]rdma.SendWR{wr, wr}); err != nil {
		t.Fatal(err)
	}
	if wcs := from.poll(); len(wcs) != 2 {
		t.Fatalf("completions %+v, want 2", wcs)
	}
}

// When a completion queue overflows, all its queue pairs go into state ERR, and the device handle from which they were
// made reports it. Other handles do not.
func TestCQOverflow(t *testing.T) {
	from, _, ah := pair(t, Config{}, peerAttr(), 2)
	other, err := from.f.hosts[0].OpenDevice("sim0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	attr := peerAttr()
	attr.SendCQ, attr.RecvCQ = from.cq, from.cq
	idle, err := from.pd.CreateQP(attr)
	if err != nil {
		t.Fatal(err)
	}
	if err := idle.Modify(rdma.QPAttr{State: rdma.QPInit, Port: 1, QKey: rdma.UDPQKey}, rdma.QPMaskState|rdma.QPMaskPKeyIndex|rdma.QPMaskPort|rdma.QPMaskQKey); err != nil {
		t.Fatal(err)
	}
	reset, err := from.pd.CreateQP(attr)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		from.send(ah, "x")
	}
	if got := len(from.poll()); got != 2 {
		t.Fatalf("%d completions, want 2", got)
	}
	if _, err := from.cq.Poll(from.wcs); !errors.Is(err, syscall.EIO) {
		t.Fatalf("Poll of the overflowed queue fails with %v, want EIO", err)
	}
	for qp, want := range map[rdma.QP]rdma.QPState{from.qp: rdma.QPErr, idle: rdma.QPErr, reset: rdma.QPReset} {
		if attr, _ := qp.Query(); attr.State != want {
			t.Errorf("the queue pair %v is in %v, want %v", qp.QPN(), attr.State, want)
		}
	}
	fatal := make(map[rdma.QP]int)
	for i := range 3 {
		ev, err := from.dev.TryGetAsyncEvent()
		if i > 0 && ev.Type == rdma.AsyncQPFatal {
			fatal[ev.QP]++
		} else if i > 0 || err != nil || ev.Type != rdma.AsyncCQErr || ev.CQ != from.cq {
			t.Errorf("event %d is %+v, error %v, want one %v of the queue first", i, ev, err, rdma.AsyncCQErr)
		}
	}
	if len(fatal) != 2 || fatal[from.qp] != 1 || fatal[idle] != 1 {
		t.Errorf("fatal events for %v, want one for each queue pair", fatal)
	}
	from.send(ah, "x") // it fails, and no further event is reported
	for _, dev := range []rdma.Device{from.dev, other} {
		if ev, err := dev.TryGetAsyncEvent(); err != rdma.ErrNoEvent {
			t.Errorf("event %+v, error %v, want none", ev, err)
		}
	}
}

// A send of memory that the L_Key does not cover causes a completion with an error and puts the queue pair into state
// ERR. Pending requests are flushed.
func TestSendOfForeignMemory(t *testing.T) {
	for name, spoil := range map[string]func(*peer, *rdma.SGE){
		"no such key":    func(_ *peer, e *rdma.SGE) { e.LKey ^= 0xffff00 },
		"stale key":      func(_ *peer, e *rdma.SGE) { e.LKey ^= 1 },
		"other memory":   func(_ *peer, e *rdma.SGE) { e.Buf = make([]byte, 10) },
		"beyond the end": func(p *peer, e *rdma.SGE) { e.Buf = append(p.mem[len(p.mem):], 1) },
		"closed":         func(p *peer, e *rdma.SGE) { p.mr.Close() },
	} {
		from, to, ah := pair(t, Config{}, peerAttr(), 64)
		to.post(4)
		from.post(2)
		wrs := []rdma.SendWR{from.sendWR(ah, "x"), from.sendWR(ah, "x"), from.sendWR(ah, "x")}
		wrs[0].Flags |= rdma.SendInline // needs no key
		spoil(from, &wrs[1].SG[0])
		wrs[1].Flags = 0 // errors are reported nevertheless
		if n, err := from.qp.PostSend(wrs); n != 3 || err != nil {
			t.Fatalf("posted %d sends, error %v, want 3", n, err)
		}
		from.run()
		if got := to.received(); len(got) != 1 {
			t.Errorf("%s: received %q, want one message", name, got)
		}
		var status []rdma.WCStatus
		for _, wc := range from.poll() {
			status = append(status, wc.Status)
		}
		want := []rdma.WCStatus{rdma.WCSuccess, rdma.WCLocProtErr, rdma.WCWRFlushErr, rdma.WCWRFlushErr, rdma.WCWRFlushErr}
		if !slices.Equal(status, want) {
			t.Errorf("%s: completions have status %v, want %v", name, status, want)
		}
		if attr, _ := from.qp.Query(); attr.State != rdma.QPErr {
			t.Errorf("%s: queue pair is in %v, want %v", name, attr.State, rdma.QPErr)
		}
		// Requests posted in ERR are flushed, too.
		from.send(ah, "y")
		from.post(1)
		if wcs := from.poll(); len(wcs) != 2 || wcs[0].Status != rdma.WCWRFlushErr || wcs[1].Status != rdma.WCWRFlushErr {
			t.Errorf("%s: completions of sends posted in state ERR are %+v, want 2, flushed", name, wcs)
		}
	}
}

// Memory of a closed region is not written.
func TestReceiveIntoClosedRegion(t *testing.T) {
	from, to, ah := pair(t, Config{}, peerAttr(), 64)
	to.post(1)
	if err := to.mr.Close(); err != nil {
		t.Fatal(err)
	}
	from.send(ah, "secret")
	from.run()
	if wcs := to.poll(); len(wcs) != 1 || wcs[0].Status != rdma.WCLocProtErr {
		t.Errorf("completions %+v, want one with a local protection error", wcs)
	}
	if slices.ContainsFunc(to.mem[:peerSlot], func(b byte) bool { return b != 0 }) {
		t.Error("memory was written")
	}
}

// Buffers and messages with several elements.
func TestScatterGather(t *testing.T) {
	from, to, ah := pair(t, Config{}, peerAttr(), 64)
	wr := rdma.RecvWR{WRID: 3, SG: []rdma.SGE{{Buf: to.mem[:17], LKey: to.mr.LKey()}, {Buf: to.mem[100:200], LKey: to.mr.LKey()}}}
	if _, err := to.qp.PostRecv([]rdma.RecvWR{wr}); err != nil {
		t.Fatal(err)
	}
	out := from.sendWR(ah, "hello world")
	out.SG = []rdma.SGE{{Buf: out.SG[0].Buf[:6], LKey: from.mr.LKey()}, {Buf: out.SG[0].Buf[6:], LKey: from.mr.LKey()}}
	if _, err := from.qp.PostSend([]rdma.SendWR{out}); err != nil {
		t.Fatal(err)
	}
	from.run()
	whole := append(slices.Clone(to.mem[:17]), to.mem[100:200]...)
	if got := string(whole[40:51]); got != "hello world" || whole[0]>>4 != 6 {
		t.Errorf("message %q after header % x, want %q after an IPv6 header", got, whole[:40], "hello world")
	}
	out.SG = append(out.SG, rdma.SGE{})
	_, err := from.qp.PostSend([]rdma.SendWR{out})
	wantErrno(t, "three elements", err, syscall.EINVAL)
}

// With a send delay the device reads memory later: it must not be changed before the completion. Inline data are copied
// immediately.
func TestSendDelay(t *testing.T) {
	from, to, ah := pair(t, Config{SendDelay: time.Millisecond}, peerAttr(), 64)
	to.post(4)
	from.send(ah, "early")
	copy(from.mem[(peerSlots-1)*peerSlot:], "LATE!")
	if wcs := from.poll(); len(wcs) != 0 {
		t.Fatalf("completions %+v immediately after the send, want none", wcs)
	}
	from.run()
	if wcs := from.poll(); len(wcs) != 1 {
		t.Fatalf("completions %+v, want 1", wcs)
	}
	wr := from.sendWR(ah, "inline")
	wr.Flags |= rdma.SendInline
	if _, err := from.qp.PostSend([]rdma.SendWR{wr}); err != nil {
		t.Fatal(err)
	}
	clear(wr.SG[0].Buf)
	from.run()
	if got := to.received(); !slices.Equal(got, []string{"LATE!", "inline"}) {
		t.Errorf("received %q, want %q and %q", got, "LATE!", "inline")
	}
}

// After arming there is one notification, and without arming none.
func TestNotification(t *testing.T) {
	f := New(Config{})
	defer f.Close()
	var ch rdma.CompChannel
	comp := func(d rdma.Device) rdma.CompChannel { ch, _ = d.NewCompChannel(); return ch }
	from, to := newPeer(t, f.AddHost(HostConfig{})), newPeerWith(t, f.AddHost(HostConfig{}), peerAttr(), 64, comp)
	ah := from.join(testGroup(1), rdma.JoinSendOnlyFullMember)
	to.join(testGroup(1), rdma.JoinFullMember)
	to.post(8)
	notified := func() bool {
		cq, err := ch.TryWait()
		if err != nil && err != rdma.ErrNoEvent {
			t.Fatal(err)
		}
		return err == nil && cq == to.cq && cq.Context() == to
	}
	send := func(flags rdma.SendFlags) {
		wr := from.sendWR(ah, "x")
		wr.Flags |= flags
		if _, err := from.qp.PostSend([]rdma.SendWR{wr}); err != nil {
			t.Fatal(err)
		}
		from.run()
	}
	arm := func(solicited bool) {
		if err := to.cq.RequestNotify(solicited); err != nil {
			t.Fatal(err)
		}
	}
	send(0)
	if notified() {
		t.Error("notified without arming")
	}
	arm(false)
	if notified() {
		t.Error("notified of an earlier completion")
	}
	send(0)
	send(0)
	if !notified() || notified() {
		t.Error("not notified once")
	}
	arm(true)
	send(0)
	if notified() {
		t.Error("notified of an unsolicited message")
	}
	send(rdma.SendSolicited)
	if !notified() {
		t.Error("not notified of a solicited message")
	}
	arm(true)
	if err := to.qp.Modify(rdma.QPAttr{State: rdma.QPErr}, rdma.QPMaskState); err != nil {
		t.Fatal(err)
	}
	if !notified() {
		t.Error("not notified of an error")
	}
	wantErrno(t, "arming without a channel", from.cq.RequestNotify(false), syscall.EINVAL)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := ch.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait fails with %v, want %v", err, context.Canceled)
	}
}
