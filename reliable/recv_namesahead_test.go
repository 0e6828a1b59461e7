package reliable

import (
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/internal/wiretest"
)

// While names are learned before a pattern begins, no packet waits for one. All names are requested
// from publishers, repeatedly until a complete listing was received, without a claim that any topic
// is wanted. Once the pattern has begun, packets wait. docs/protocol §9.9.
func TestNamesAhead(t *testing.T) {
	l := new(log)
	r := newReceiver(t, l, nil)
	setTopics(r, 1, []string{"x"})
	ms := Instant(time.Millisecond)
	flags := func(now Instant) (f wire.Flags) {
		for _, p := range replies(r, now) {
			if p.Type == wire.TypeStatus {
				f |= p.Flags
			}
		}
		return f
	}
	r.Handle(ms, 1, wiretest.Named(4, "x:0"))
	flags(ms)
	if f := flags(500 * ms); f&(wire.FlagWantTopics|wire.FlagMoreTopics) != 0 {
		t.Fatalf("requests names before they are wanted: %v", f)
	}

	names := new(learned)
	r.LearnNamesAhead(501*ms, names)
	st := r.Streams()[0]
	asked := 0
	for at := 501 * ms; at < 601*ms; at += ms {
		r.Tick(at)
		f := flags(at)
		if f&wire.FlagMoreTopics != 0 {
			t.Fatal("the status claims that any topic may be wanted")
		}
		if f&wire.FlagWantTopics != 0 {
			asked++
		}
	}
	if asked != 5 { // every 20 ms
		t.Errorf("requested %d times in 100 ms", asked)
	}
	r.Handle(601*ms, 1, wiretest.Named(5, "a:0", "b=0", "b:0", "x:1"))
	r.Handle(602*ms, 1, wiretest.Named(6, "c:0"))
	if st.Next() != 7 || r.NamesLearned() {
		t.Errorf("the next packet is %d, want 7; all names are learned: %v", st.Next(), r.NamesLearned())
	}
	r.Handle(603*ms, 1, wiretest.Announce(5, 0, 3, "x", "a"))
	if r.NamesLearned() {
		t.Error("part of the names is treated as all")
	}
	r.Handle(604*ms, 1, wiretest.Announce(7, 2, 3, "c"))
	if !r.NamesLearned() || r.NamesKnown() != 4 {
		t.Errorf("%d of 4 names are known", r.NamesKnown())
	}
	slices.Sort(names.all)
	if want := []string{"a", "b first", "c", "x"}; !slices.Equal(names.all, want) {
		t.Errorf("learned %q, want %q", names.all, want)
	}

	r.LearnNames(605*ms, names)
	if f := flags(605 * ms); f&wire.FlagMoreTopics == 0 || f&wire.FlagWantTopics != 0 {
		t.Errorf("the status with the pattern has flags %v", f)
	}
	r.Handle(606*ms, 1, wiretest.Named(7, "a:1", "c:1"))
	if st.Next() != 8 {
		t.Error("a packet waits although its names are known")
	}
	r.Handle(607*ms, 1, wiretest.Named(8, "d:0"))
	if st.Next() != 8 {
		t.Error("a packet does not wait for a name although there is a pattern")
	}
	r.Handle(608*ms, 1, wiretest.Announce(9, 0, 1, "d"))
	if r.Tick(608 * ms); st.Next() != 9 {
		t.Error("a packet still waits for its name")
	}
	r.LearnNames(609*ms, nil)
	if r.LearnNamesAhead(610*ms, names); r.NamesKnown() != 0 {
		t.Errorf("%d names are known while none is wanted", r.NamesKnown())
	}
	r.LearnNames(611*ms, nil)
	r.Handle(612*ms, 1, wiretest.Named(9, "e:0"))
	if st.Next() != 10 {
		t.Error("a packet waits for an unwanted name")
	}
}
