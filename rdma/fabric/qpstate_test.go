package fabric

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/fanfaremq/fanfare/rdma"
)

// Reset forgets requests and lets the queue pair begin anew.
func TestResetAndAgain(t *testing.T) {
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
	// It is still attached; the receives posted before the reset are gone.
	if got := to.received(); !slices.Equal(got, []string{"one"}) {
		t.Errorf("received %q", got)
	}
}

// All transitions of a UD queue pair, each with each set of attributes: the
// ones of the kernel's table and no others.
func TestQPStateTable(t *testing.T) {
	const (
		cur, pkey, port, qkey, psn = rdma.QPMaskCurState, rdma.QPMaskPKeyIndex, rdma.QPMaskPort, rdma.QPMaskQKey, rdma.QPMaskSQPSN
		never                      = rdma.QPAttrMask(1 << 31)
	)
	type masks struct{ must, may rdma.QPAttrMask }
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
				want := mask&m.must == m.must && mask&^(m.must|m.may) == 0
				err := set(to, mask, from)
				if (err == nil) != want || err != nil && !errors.Is(err, syscall.EINVAL) {
					t.Fatalf("%v to %v with %#x: %v, want success %v", from, to, mask, err, want)
				}
				if attr, _ := p.qp.Query(); err != nil && attr.State != from || err == nil && attr.State != to {
					t.Fatalf("%v to %v: queue pair is in %v", from, to, attr.State)
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
		t.Fatalf("received %q", got)
	}
	if err := from.qp.Modify(rdma.QPAttr{State: rdma.QPRTS}, rdma.QPMaskState); err != nil {
		t.Fatal(err)
	}
	from.run()
	if got := to.received(); !slices.Equal(got, []string{"held"}) {
		t.Fatalf("received %q", got)
	}
}
