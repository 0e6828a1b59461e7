package fabric

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
)

// faulty sends 2000 numbered messages with faults and returns the received ones.
func faulty(t *testing.T, seed uint64, faults Faults) ([]string, Stats) {
	t.Helper()
	f := New(Config{Seed: seed, Latency: time.Microsecond})
	defer f.Close()
	from, to := newPeer(t, f.AddHost(HostConfig{})), newPeer(t, f.AddHost(HostConfig{}))
	ah := from.join(testGroup(1), rdma.JoinSendOnlyFullMember)
	to.join(testGroup(1), rdma.JoinFullMember)
	f.SetFaults(faults)
	to.post(peerSlots)
	var got []string
	drain := func() {
		from.poll()
		for _, wc := range to.poll() {
			slot := int(wc.WRID)
			got = append(got, string(to.mem[slot*peerSlot+rdma.GRHBytes:][:wc.ByteLen-rdma.GRHBytes]))
			if _, err := to.qp.PostRecv([]rdma.RecvWR{to.recvWR(slot)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range 2000 {
		from.send(ah, fmt.Sprint(i))
		f.AdvanceTo(f.Now() + time.Microsecond)
		drain()
	}
	f.AdvanceTo(f.Now() + time.Second)
	drain()
	return got, f.Stats()
}

func TestFaults(t *testing.T) {
	order := func(list []string) int {
		swaps, last := 0, -1
		for _, s := range list {
			var n int
			fmt.Sscan(s, &n)
			if n < last {
				swaps++
			}
			last = n
		}
		return swaps
	}
	got, s := faulty(t, 1, Faults{})
	if len(got) != 2000 || order(got) != 0 || s.Lost != 0 {
		t.Errorf("without faults: %d messages, %d out of order, %+v, want 2000, none and no loss", len(got), order(got), s)
	}
	got, s = faulty(t, 1, Faults{Loss: 0.1})
	if len(got)+int(s.Lost) != 2000 || s.Lost < 100 || s.Lost > 300 {
		t.Errorf("loss: %d messages, %+v, want 2000 less 100 to 300 lost", len(got), s)
	}
	got, s = faulty(t, 1, Faults{Duplicate: 0.1})
	if len(got) != 2000+int(s.Duplicated) || s.Duplicated < 100 || s.Duplicated > 300 {
		t.Errorf("duplicates: %d messages, %+v, want 2000 and 100 to 300 duplicates", len(got), s)
	}
	got, _ = faulty(t, 1, Faults{Reorder: 0.1})
	if len(got) != 2000 || order(got) < 50 {
		t.Errorf("reordering: %d messages, %d out of order, want 2000 and 50 or more", len(got), order(got))
	}
	got, _ = faulty(t, 1, Faults{Jitter: 20 * time.Microsecond})
	if len(got) != 2000 || order(got) != 0 {
		t.Errorf("jitter: %d messages, %d out of order, want 2000 and none", len(got), order(got))
	}
}

// The same seed gives the same run, another seed another one.
func TestSeed(t *testing.T) {
	all := Faults{Loss: 0.05, Duplicate: 0.05, Reorder: 0.05, Jitter: 5 * time.Microsecond}
	a, _ := faulty(t, 7, all)
	b, _ := faulty(t, 7, all)
	c, _ := faulty(t, 8, all)
	if !slices.Equal(a, b) {
		t.Error("the same seed gives different runs")
	}
	if slices.Equal(a, c) {
		t.Error("different seeds give the same run")
	}
}

// Time advances only in Step and AdvanceTo.
func TestStep(t *testing.T) {
	f := New(Config{Latency: 3 * time.Microsecond})
	defer f.Close()
	from, to := newPeer(t, f.AddHost(HostConfig{})), newPeer(t, f.AddHost(HostConfig{}))
	ah := from.join(testGroup(1), rdma.JoinSendOnlyFullMember)
	to.join(testGroup(1), rdma.JoinFullMember)
	to.post(1)
	for f.Step() {
	}
	if at, ok := f.NextDeadline(); ok {
		t.Fatalf("an event is due at %v, want none", at)
	}
	start := f.Now()
	from.send(ah, "x")
	if f.Now() != start || len(to.received()) != 0 {
		t.Fatal("the message was delivered before a step")
	}
	// The sender's port, the switch, the receiver.
	for i, want := range []time.Duration{0, 3 * time.Microsecond, 6 * time.Microsecond} {
		if at, ok := f.NextDeadline(); !ok || at != start+want {
			t.Fatalf("step %d is due at %v, want %v", i, at-start, want)
		}
		f.Step()
	}
	if got := to.received(); len(got) != 1 || f.Now() != start+6*time.Microsecond {
		t.Errorf("received %q after %v, want one message after 6 µs", got, f.Now()-start)
	}
}
