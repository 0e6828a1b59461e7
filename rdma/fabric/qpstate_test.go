package fabric

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/fanfaremq/fanfare/rdma"
)

// RESET discards requests, and then the queue pair can be used again.
func TestReset(t *testing.T) {
	from, to, ah := pair(t, Config{}, peerAttr(), 64)
	to.post(3)
	mod := func(attr rdma.QPAttr, mask rdma.QPAttrMask) {
		t.Helper()
		if err := to.qp.Modify(attr, mask); err != nil {
			t.Fatal(err)
		}
	}
	mod(rdma.QPAttr{State: rdma.QPReset}, rdma.QPMaskState)
	_, err := to.qp.PostRecv([]rdma.RecvWR{to.recvWR(0)})
	wantErrno(t, "PostRecv in RESET", err, syscall.EINVAL)
	mod(rdma.QPAttr{State: rdma.QPInit, Port: 1, QKey: rdma.UDPQKey}, rdma.QPMaskState|rdma.QPMaskPKeyIndex|rdma.QPMaskPort|rdma.QPMaskQKey)
	to.post(1)
	mod(rdma.QPAttr{State: rdma.QPRTR}, rdma.QPMaskState)
	from.send(ah, "one")
	from.send(ah, "two")
	from.run()
	// It is still attached. The receives posted before the reset were discarded.
	if got := to.received(); !slices.Equal(got, []string{"one"}) {
		t.Errorf("received %q, want %q", got, "one")
	}
}

// Of all transitions of a UD queue pair with all sets of attributes exactly those in the kernel's table succeed.
func TestQPStateTable(t *testing.T) {
	const (
		cur, pkey, port, qkey, psn = rdma.QPMaskCurState, rdma.QPMaskPKeyIndex, rdma.QPMaskPort, rdma.QPMaskQKey, rdma.QPMaskSQPSN
		never                      = rdma.QPAttrMask(1 << 31)
	)
	type masks struct{ required, optional rdma.QPAttrMask }
	table := map[string]masks{
		"RESET INIT": {pkey | port | qkey, 0}, "INIT INIT": {0, pkey | port | qkey}, "INIT RTR": {0, pkey | qkey},
		"RTR RTS": {psn, cur | qkey}, "RTS RTS": {0, cur | qkey}, "RTS SQD": {0, 0},
		"SQD SQD": {0, pkey | qkey}, "SQD RTS": {0, cur | qkey},
	}
	f := New(Config{})
	defer f.Close()
	p := newPeer(t, f.AddHost(HostConfig{}))
	path := []struct {
		state rdma.QPState
		mask  rdma.QPAttrMask
	}{{rdma.QPInit, pkey | port | qkey}, {rdma.QPRTR, 0}, {rdma.QPRTS, psn}, {rdma.QPSQD, 0}}
	set := func(state rdma.QPState, mask rdma.QPAttrMask, from rdma.QPState) error {
		return p.qp.Modify(rdma.QPAttr{State: state, CurState: from, Port: 1, QKey: 1}, rdma.QPMaskState|mask)
	}
	goTo := func(state rdma.QPState) {
		t.Helper()
		if err := set(rdma.QPReset, 0, 0); err != nil {
			t.Fatal(err)
		}
		if state == rdma.QPErr {
			if err := set(state, 0, 0); err != nil {
				t.Fatal(err)
			}
		}
		for _, step := range path {
			if step.state <= state && state != rdma.QPErr {
				if err := set(step.state, step.mask, 0); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	states := []rdma.QPState{rdma.QPReset, rdma.QPInit, rdma.QPRTR, rdma.QPRTS, rdma.QPSQD, rdma.QPErr}
	for _, from := range states {
		for _, to := range states {
			m, ok := table[fmt.Sprint(from, " ", to)]
			if to == rdma.QPReset || to == rdma.QPErr {
				m, ok = masks{}, true
			}
			if !ok {
				m = masks{never, 0}
			}
			for bits := range 1 << 5 {
				var mask rdma.QPAttrMask
				for i, b := range []rdma.QPAttrMask{cur, pkey, port, qkey, psn} {
					if bits&(1<<i) != 0 {
						mask |= b
					}
				}
				goTo(from)
				want := mask&m.required == m.required && mask&^(m.required|m.optional) == 0
				err := set(to, mask, from)
				if (err == nil) != want || err != nil && !errors.Is(err, syscall.EINVAL) {
					t.Fatalf("%v to %v with %#x: %v, want success %v", from, to, mask, err, want)
				}
				if attr, _ := p.qp.Query(); err != nil && attr.State != from || err == nil && attr.State != to {
					t.Fatalf("transition from %v to %v fails with %v, but the queue pair is in %v", from, to, err, attr.State)
				}
			}
		}
	}
}

// Sends posted in SQD wait for RTS.
func TestSQD(t *testing.T) {
	from, to, ah := pair(t, Config{}, peerAttr(), 64)
	to.post(1)
	if err := from.qp.Modify(rdma.QPAttr{State: rdma.QPSQD}, rdma.QPMaskState); err != nil {
		t.Fatal(err)
	}
	from.send(ah, "held")
	from.run()
	if got := to.received(); len(got) != 0 {
		t.Fatalf("received %q, want nothing", got)
	}
	if err := from.qp.Modify(rdma.QPAttr{State: rdma.QPRTS}, rdma.QPMaskState); err != nil {
		t.Fatal(err)
	}
	from.run()
	if got := to.received(); !slices.Equal(got, []string{"held"}) {
		t.Fatalf("received %q, want %q", got, "held")
	}
}

// Invalid attributes are EINVAL and change nothing. A queue pair in RESET has no port.
func TestQPAttributes(t *testing.T) {
	f := New(Config{})
	defer f.Close()
	p := newPeer(t, f.AddHost(HostConfig{}))
	mod := func(attr rdma.QPAttr, mask rdma.QPAttrMask) error { return p.qp.Modify(attr, mask) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	port := func(want uint8) {
		t.Helper()
		if a, err := p.qp.Query(); err != nil || a.Port != want {
			t.Errorf("port %d, %v, want %d", a.Port, err, want)
		}
	}
	port(1)
	must(mod(rdma.QPAttr{State: rdma.QPReset}, rdma.QPMaskState))
	port(0)
	wantErrno(t, "an unknown P_Key index", mod(rdma.QPAttr{State: rdma.QPInit, Port: 1, PKeyIndex: 1}, initMask), syscall.EINVAL)
	wantErrno(t, "an unknown port", mod(rdma.QPAttr{State: rdma.QPInit, Port: 2}, initMask), syscall.EINVAL)
	port(0)
	must(mod(rdma.QPAttr{State: rdma.QPInit, Port: 1}, initMask))
	wantErrno(t, "another unknown port", mod(rdma.QPAttr{Port: 9}, rdma.QPMaskPort), syscall.EINVAL)
	port(1)
	must(mod(rdma.QPAttr{State: rdma.QPRTR}, rdma.QPMaskState))
	wantErrno(t, "a PSN of 25 bits", mod(rdma.QPAttr{State: rdma.QPRTS, SQPSN: 1 << 24}, rdma.QPMaskState|rdma.QPMaskSQPSN), syscall.EINVAL)
	must(mod(rdma.QPAttr{State: rdma.QPRTS, SQPSN: 1<<24 - 1}, rdma.QPMaskState|rdma.QPMaskSQPSN))
}

// A queue pair in state ERR receives nothing, and counts no message as dropped without a buffer.
func TestErrorReceivesNothing(t *testing.T) {
	from, to, ah := pair(t, Config{}, peerAttr(), 64)
	to.post(1)
	if err := to.qp.Modify(rdma.QPAttr{State: rdma.QPErr}, rdma.QPMaskState); err != nil {
		t.Fatal(err)
	}
	from.send(ah, "x")
	from.run()
	if wcs := to.poll(); len(wcs) != 1 || wcs[0].Status != rdma.WCWRFlushErr {
		t.Errorf("completions %+v, want one, flushed", wcs)
	}
	if n := to.qp.(rdma.DropCounter).Dropped(); n != 0 {
		t.Errorf("%d datagrams counted as dropped, want none", n)
	}
	if attr, _ := to.dev.Port(1); attr.Dropped != 1 {
		t.Errorf("%d counted at the port, want 1", attr.Dropped)
	}
}

// A queue pair that changed from RESET to ERR has no port. Requests are flushed, as always in ERR.
func TestErrorFromReset(t *testing.T) {
	for _, flavor := range []Flavor{InfiniBand, RoCE} {
		f := New(Config{Flavor: flavor})
		defer f.Close()
		p := newPeer(t, f.AddHost(HostConfig{}))
		ah := p.join(testGroup(1), rdma.JoinFullMember)
		qp, err := p.pd.CreateQP(rdma.QPInitAttr{SendCQ: p.cq, RecvCQ: p.cq, Cap: rdma.QPCap{MaxSendWR: 4, MaxRecvWR: 4}})
		if err != nil {
			t.Fatal(err)
		}
		if err := qp.Modify(rdma.QPAttr{State: rdma.QPErr}, rdma.QPMaskState); err != nil {
			t.Fatal(err)
		}
		wr := p.sendWR(ah, "x")
		if n, err := qp.PostSend([]rdma.SendWR{wr, wr}); n != 2 || err != nil {
			t.Errorf("%v: PostSend posted %d, error %v, want 2 and none", flavor, n, err)
		}
		if n, err := qp.PostRecv([]rdma.RecvWR{p.recvWR(0)}); n != 1 || err != nil {
			t.Errorf("%v: PostRecv posted %d, error %v, want 1 and none", flavor, n, err)
		}
		wcs := p.poll()
		if len(wcs) != 3 {
			t.Errorf("%v: completions %+v, want 3", flavor, wcs)
		}
		for _, wc := range wcs {
			if wc.Status != rdma.WCWRFlushErr || wc.QPN != qp.QPN() {
				t.Errorf("%v: completion %+v, want it flushed on queue pair %v", flavor, wc, qp.QPN())
			}
		}
		wr.SG = []rdma.SGE{{Buf: p.mem[:4097]}}
		_, err = qp.PostSend([]rdma.SendWR{wr})
		wantErrno(t, "a message longer than the MTU", err, syscall.EMSGSIZE)
		if s := f.Stats(); s.Sent != 0 {
			t.Errorf("%v: %d packets sent, want none", flavor, s.Sent)
		}
	}
}
