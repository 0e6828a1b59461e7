package topics

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/internal/wiretest"
	"github.com/fanfaremq/fanfare/reliable"
)

// learned records names.
type learned struct{ all []string }

func (l *learned) Named(st *reliable.Stream, id uint64, name string, since uint64, whole bool) {
	if id != wire.TopicID(name) {
		name += " of another topic"
	}
	if whole {
		name += " whole"
	}
	l.all = append(l.all, fmt.Sprint(name, " since ", since, " at ", st.Reached()))
}
func (l *learned) Forgotten(_ *reliable.Stream, id uint64) {
	for _, name := range []string{"a.b", "x", "z"} {
		if id == wire.TopicID(name) {
			l.all = append(l.all, "-"+name)
		}
	}
}
func (l *learned) Wants(uint64) bool { return true }
func (l *learned) Untrusted(_ *reliable.Stream, _ uint64, topic string, messages int, first bool) {
	l.all = append(l.all, fmt.Sprintf("untrusted %s %d %v", topic, messages, first))
}

// Topics are learned from topic runs, in order. While the topics of a stream are known, one that it names first began
// with number 0 there, or after the first packet of the losses that were asked about. Packets never wait for names.
// docs/protocol §9.9.
func TestNamesAreLearned(t *testing.T) {
	answer := func(since, question uint64, runs ...string) string {
		return index(begins, since, 42, question) + topicRuns(runs...) + index(ends, uint64(len(runs)))
	}
	for name, c := range map[string]struct {
		do      func(r *received)
		want    []string
		unknown bool // at the end
	}{
		"from the first packet on": {func(r *received) {
			handle(r, 0, topicRuns("x=0", "x:0"))
			handle(r, 1, topicRuns("y=4", "x=1"))
			handle(r, 2, topicRuns("lost:0"))
		}, []string{"x whole since 0 at 0", "y whole since 1 at 1"}, false},
		"held packets, once": {func(r *received) {
			handle(r, 0)
			handle(r, 2, topicRuns("y=0"))
			if len(r.in.names.to.(*learned).all) != 0 {
				t.Error("a name is learned before its turn")
			}
			handle(r, 1, topicRuns("x=0"))
		}, []string{"x whole since 1 at 1", "y whole since 2 at 2"}, false},
		"late, before the round": {func(r *received) {
			handle(r, 5, topicRuns("x=3"))
			handle(r, 6, topicRuns("y=0"))
		}, []string{"x since 5 at 5", "y whole since 6 at 6"}, true},
		"late, with the round": {func(r *received) {
			handle(r, 5, topicRuns("x:3"))
			handle(r, 6, answer(0, 1, "x=4", "y=2"))
			handle(r, 7, topicRuns("z=0"))
		}, []string{"x since 6 at 6", "y since 6 at 6", "z whole since 7 at 7"}, false},
		"late, with a round for others": {func(r *received) {
			handle(r, 5)
			handle(r, 6, index(begins, 0, 41, 1), topicRuns("x=4"), index(ends, 1))
		}, []string{"x since 6 at 6"}, true},
		"after a loss": {func(r *received) {
			handle(r, 0)
			handle(r, 4)
			gone(r, 2, 2)
			handle(r, 1)
			handle(r, 5, topicRuns("x=0"))
			handle(r, 6, answer(2, 1, "x=1", "y=7"))
			handle(r, 7, topicRuns("z=0"))
		}, []string{"x whole since 2 at 5", "y whole since 2 at 6", "z whole since 7 at 7"}, false},
		"after a loss and a late start": {func(r *received) {
			handle(r, 3)
			handle(r, 5)
			gone(r, 4, 1)
			handle(r, 6, topicRuns("x=5"))
		}, []string{"x since 6 at 6"}, true},
		"known before the pattern": {func(r *received) {
			r.in.LearnNames(1, nil)
			handle(r, 0, topicRuns("x=0", "x:0"))
			r.in.LearnNames(1, r.in.names.to)
		}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			names := &learned{}
			r := newReceived(t, nil)
			r.in.LearnNames(0, names)
			c.do(r)
			if !slices.Equal(names.all, c.want) || r.in.NamesLearned() == c.unknown || r.AnyMissing() {
				t.Errorf("learned %q, want %q; all names: %v; next is %d, after %d packets", names.all, c.want, r.in.NamesLearned(), r.first().packets.Reached(), len(r.packets))
			}
		})
	}
}

// A pattern of a receiver that has followed streams for long begins when their rounds are complete. Streams that are
// lost or over delay it no longer. Names are forgotten with the last stream that may have the topic. docs/protocol
// §9.9.
func TestNamesOfStreams(t *testing.T) {
	names := &learned{}
	r := newReceived(t, nil)
	handle(r, 8, topicRuns("x:0"))
	handle(r, 9, index(begins, 0, 42, 1), index(ends, 3)) // it has no wanted topic
	other := wiretest.Named(0)
	other[24] = 4 // its epoch
	r.Handle(9, 5, other)
	if !r.in.NamesLearned() {
		t.Error("topics of a stream are unknown after its round")
	}
	r.in.LearnNames(10, names)
	handle(r, 10, topicRuns("a.b=0"))
	if len(r.packets) != 4 || !slices.Equal(names.all, []string{"a.b whole since 10 at 10"}) || r.in.NamesLearned() {
		t.Errorf("learned %q, %d packets", names.all, len(r.packets))
	}
	handle(r, 11, index(begins, 0, 42, 2), topicRuns("x=1", "z=4"), index(ends, 3))
	if name, ok := r.in.Name(wire.TopicID("z")); r.in.NamesLearned() || r.in.NamesKnown() != 3 || !ok || name != "z" {
		t.Errorf("%d names, all without the round of the other stream", r.in.NamesKnown())
	}
	names.all = nil
	at := reliable.Instant(3 * time.Second)
	r.Handle(at, 5, heartbeat(wire.FlagEnd, wire.Heartbeat{Lead: 12, SentAt: 3, Interval: time.Second}))
	r.Handle(at, 5, heartbeat(wire.FlagEnd, wire.Heartbeat{Lead: 12, SentAt: 4, Interval: time.Second}))
	if r.tick(reliable.Instant(6 * time.Second)); !r.in.NamesLearned() {
		t.Error("a lost stream and one that is over delay patterns")
	}
	if len(r.in.list) != 1 || r.in.NamesKnown() != 3 {
		t.Errorf("%d names are known while one of %d streams has still to list its topics", r.in.NamesKnown(), len(r.in.list))
	}
	r.Free()
	if slices.Sort(names.all); !slices.Equal(names.all, []string{"-a.b", "-x", "-z"}) || r.in.NamesKnown() != 0 {
		t.Errorf("forgotten %q", names.all)
	}
}

// name8 returns topic runs of eight topics from number i on.
func name8(i int) (runs string) {
	for j := range 8 {
		text := fmt.Sprint("t", i+j)
		runs += named(text, text)
	}
	return runs
}

// The number of stored names is limited: a further one is reported. docs/protocol §12.5.
func TestNamesAreBounded(t *testing.T) {
	r := newReceived(t, nil)
	r.in.Forget(2 * maxNames)
	r.in.LearnNames(0, &learned{})
	for i := 0; i < maxNames; i += 8 {
		handle(r, uint64(i)/8, name8(i))
	}
	if r.in.names.known.Len() != maxNames || r.in.Stats().NamesRefused != 0 || r.unnamed > 0 {
		t.Errorf("%d names are known, %d refused", r.in.names.known.Len(), r.in.Stats().NamesRefused)
	}
	handle(r, maxNames/8, topicRuns("beyond=0", "beyond:0"))
	if len(r.packets) != maxNames/8+1 || r.in.names.known.Len() != maxNames || r.in.Stats().NamesRefused != 1 || r.unnamed != 1 {
		t.Errorf("%d packets, %d names are known, %d refused, reported %v", len(r.packets), r.in.names.known.Len(), r.in.Stats().NamesRefused, r.unnamed)
	}
}

// Packets of known topics cause no allocations.
func TestNamesDoNotAllocate(t *testing.T) {
	r := newReceived(t, nil)
	r.packets = make([]uint64, 0, 2000)
	now := reliable.Instant(time.Hour)
	r.in.LearnNames(now, &learned{})
	r.Handle(now, 5, wiretest.Named(0, "x=0", "y=0"))
	p := wiretest.Named(0, "x:0", "y:0", "x:1")
	seq := uint64(0)
	if n := testing.AllocsPerRun(1000, func() {
		seq++
		wire.SetSeq(p, seq)
		r.Handle(now, 5, p)
	}); n != 0 {
		t.Errorf("%v allocations for each packet", n)
	}
}

// If publishers prove their keys, a key that names as many topics as possible leaves half of the
// memory to others. docs/protocol §12.5.
func TestNamesAreShared(t *testing.T) {
	at := reliable.Instant(time.Hour)
	r := newReceived(t, nil)
	r.in.names.now = trustAll
	r.in.LearnNames(at, &learned{})
	names := 0
	greedy := func(key uint64) (n int) {
		before := r.in.names.known.Len()
		for seq := uint64(0); r.in.Stats().NamesRefused == 0 && names < 2*maxNames; names, seq = names+8, seq+1 {
			b := wiretest.Data(seq, []byte(name8(names)))
			binary.LittleEndian.PutUint64(b[16:], key<<32|7)
			r.Handle(at, 5, b)
		}
		r.in.stats.NamesRefused = 0
		return r.in.names.known.Len() - before
	}
	if n := greedy(1); n != maxNames/2 {
		t.Errorf("one key has named %d topics, want %d", n, maxNames/2)
	}
	if n := greedy(2); n != maxNames/4 {
		t.Errorf("another has named %d, want %d", n, maxNames/4)
	}
	r.Free()
	if r.in.names.known.Len() != 0 || len(r.in.names.held) != 0 {
		t.Errorf("%d names are known, of %v", r.in.names.known.Len(), r.in.names.held)
	}
}
