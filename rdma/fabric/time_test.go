package fabric

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
)

// AdvanceTo sets the time, and cancelled timers do not fire: the answer to a join cancels its timeout.
func TestTime(t *testing.T) {
	f := New(Config{SM: SM{ResponseDelay: time.Millisecond}})
	defer f.Close()
	f.AdvanceTo(7 * time.Second)
	f.AdvanceTo(3 * time.Second)
	if f.Now() != 7*time.Second {
		t.Errorf("the time is %v, want 7s", f.Now())
	}
	p := newPeer(t, f.AddHost(HostConfig{}))
	if err := p.id.JoinMulticast(testGroup(1), nil); err != nil {
		t.Fatal(err)
	}
	f.AdvanceTo(8 * time.Second)
	if at, ok := f.NextDeadline(); ok {
		t.Errorf("the join has ended, but an event is due at %v", at)
	}
}

// On a closed fabric nothing happens.
func TestCloseEndsTime(t *testing.T) {
	from, to, ah := pair(t, Config{Latency: time.Millisecond}, peerAttr(), 64)
	to.post(1)
	from.send(ah, "x")
	from.f.Close()
	if from.f.Step() {
		t.Error("Step executed an event")
	}
	from.f.AdvanceTo(from.f.Now() + time.Second)
	if got := to.received(); len(got) != 0 || from.f.Stats().Delivered != 0 {
		t.Errorf("received %q, want nothing, and none delivered", got)
	}
}

// Delays are as documented: jitter is up to its value, reordering exactly its delay, by default 10 µs.
func TestDelays(t *testing.T) {
	const us, latency = time.Microsecond, 5 * time.Microsecond
	times := func(faults Faults) map[time.Duration]int {
		from, to, ah := pair(t, Config{Seed: 9, Latency: latency}, peerAttr(), 64)
		f := from.f
		f.SetFaults(faults)
		seen := map[time.Duration]int{}
		for range 50 {
			to.post(1)
			start := f.Now()
			from.send(ah, "x")
			for before := f.Stats().Delivered; f.Stats().Delivered == before && f.Step(); {
			}
			seen[f.Now()-start-2*latency]++
			from.run()
			from.poll()
			to.poll()
		}
		return seen
	}
	if seen := times(Faults{}); seen[0] != 50 {
		t.Errorf("delays without faults: %v, want none for all 50", seen)
	}
	if seen := times(Faults{Reorder: 1}); seen[10*us] != 50 {
		t.Errorf("delays of reordering by default: %v, want 10 µs for all 50", seen)
	}
	if seen := times(Faults{Reorder: 1, ReorderDelay: 70 * us}); seen[70*us] != 50 {
		t.Errorf("delays of reordering by 70 µs: %v, want them for all 50", seen)
	}
	seen := times(Faults{Jitter: 30 * us})
	for d := range seen {
		if d < 0 || d > 30*us {
			t.Errorf("jitter of 30 µs delays by %v, want 0 to 30 µs", d)
		}
	}
	if len(seen) < 30 {
		t.Errorf("jitter of 30 µs has only the delays %v, want 30 or more", seen)
	}
}

// The trace keeps the latest records, including refused requests.
func TestTrace(t *testing.T) {
	f := New(Config{SM: SM{NoSendOnly: true}})
	defer f.Close()
	p := newPeer(t, f.AddHost(HostConfig{Name: "here"}))
	if s := p.status(testGroup(1), rdma.JoinSendOnlyFullMember); s != -22 {
		t.Fatalf("the join has status %d, want -22", s)
	}
	p.leave(testGroup(1))
	p.join(testGroup(1), rdma.JoinFullMember)
	var sets []Record
	for _, r := range f.Trace() {
		if r.Kind == SASet {
			sets = append(sets, r)
		}
	}
	if len(sets) != 2 || !sets[0].Refused || sets[0].State != 0x8 || sets[1].Refused || sets[1].State != 0x1 || sets[1].Host != "here" || sets[1].Port != 1 {
		t.Errorf("requests %v, want a refused one for state 0x8, then one for state 0x1 from port 1 of here", sets)
	}
	if len(f.Trace()) != 0 {
		t.Error("the trace is returned twice")
	}
	f.mu.Lock()
	for i := range 3 * traceLimit {
		f.record(nil, Record{Port: uint8(i)})
	}
	f.mu.Unlock()
	tr := f.Trace()
	if len(tr) > traceLimit || len(tr) < traceLimit/2 || tr[len(tr)-1].Port != 255 {
		t.Errorf("%d records are kept of %d, want %d to %d, the last %v, of port 255", len(tr), 3*traceLimit, traceLimit/2, traceLimit, tr[len(tr)-1])
	}
}
