package topics

import (
	"slices"
	"sync/atomic"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/reliable"
)

// Receiver is the message layer of a reliable.Receiver: the topics that are wanted of one group, and what the group's
// streams state about theirs. Only the owner of the reliable.Receiver may use it.
type Receiver struct {
	packets *reliable.Receiver
	id      uint64 // of packets
	// wantedFrom returns the number of the first wanted message of a topic; nil: 0.
	wantedFrom func(of events.Instance, topic uint64) uint64
	list       []*Stream // in the order of reliable.Receiver.Streams
	subscribed
	names   names
	keep    uint64 // topic runs after which a topic is forgotten
	joins   joins
	decoder decoder
	stats   stats.ReceiverMessages
}

// NewReceiver returns the message layer of packets, which has that id. The Sink of packets calls Open.
func NewReceiver(packets *reliable.Receiver, id uint64) *Receiver {
	return &Receiver{packets: packets, id: id, keep: wire.TopicRuns}
}

// Trust sets which keys may publish on which topics, with reliable.ReceiverConfig.ProvedKeys. now returns the current
// trust. By default every publisher may publish on every topic.
func (r *Receiver) Trust(now func() TopicTrust) { r.names.now = now }

// From sets the number of the first wanted message of each topic, with reliable.ReceiverConfig.FromWindow: packets
// before it are not fetched. By default all that publishers can still repair are.
func (r *Receiver) From(wanted func(of events.Instance, topic uint64) uint64) { r.wantedFrom = wanted }

// Forget sets how many topic runs of others bound the topics that are remembered. All of a network have the same
// number; the default is wire.TopicRuns.
func (r *Receiver) Forget(runs uint64) { r.keep = runs }

// Stats returns the counters.
func (r *Receiver) Stats() stats.ReceiverMessages { return r.stats }

// subscribed are the topics wanted by name.
type subscribed struct {
	topics  []uint64
	wants   map[uint64]wantedTopic // by id
	added   bool                   // some since the last TopicsChanged
	missing int                    // index of a topic without a publisher, as last found by PublisherMissing
	// named holds the topics of a status: one more than fit, so that an excess shows.
	named [wire.MaxStatusTopics + 1]uint64
}

type wantedTopic struct {
	name string
	at   int // index in topics
}

// Want adds a wanted topic. Call TopicsChanged afterwards.
func (r *Receiver) Want(name string) {
	id := wire.TopicID(name)
	if _, ok := r.wants[id]; ok {
		return
	}
	if r.wants == nil {
		r.wants = make(map[uint64]wantedTopic)
	}
	r.wants[id] = wantedTopic{name, len(r.topics)}
	r.topics = append(r.topics, id)
	r.added = true
	r.packets.SetWanted(r.wanting())
}

// Unwant removes a wanted topic, which may reorder the others. Call TopicsChanged afterwards.
func (r *Receiver) Unwant(name string) {
	id := wire.TopicID(name)
	t, ok := r.wants[id]
	if !ok {
		return
	}
	last := len(r.topics) - 1
	moved := r.topics[last]
	r.wants[moved] = wantedTopic{r.wants[moved].name, t.at}
	r.topics[t.at], r.topics = moved, r.topics[:last]
	delete(r.wants, id)
	r.packets.SetWanted(r.wanting())
}

// TopicsChanged informs publishers of the wanted topics. If none is wanted, the receiver sends leaving statuses.
func (r *Receiver) TopicsChanged(now reliable.Instant) {
	for _, st := range r.list {
		if r.added && r.names.to == nil {
			if st.index.whole = false; st.packets.Reached() > 0 {
				st.askAll()
			}
		}
		for id, err := range st.collided {
			if name, _ := r.wanted(id); name != err.Known {
				delete(st.collided, id)
			}
		}
	}
	r.added = false
	r.packets.WantedChanged(now)
}

// PublisherMissing reports whether a wanted topic has no known publisher that is up. If so, it asks each publisher once
// whether it has the topic without messages.
func (r *Receiver) PublisherMissing() (missing bool) {
	if r.missing >= len(r.topics) || r.published(r.topics[r.missing]) {
		r.missing = slices.IndexFunc(r.topics, func(id uint64) bool { return !r.published(id) })
		r.missing = max(r.missing, 0)
	}
	missing = len(r.topics) > 0 && !r.published(r.topics[r.missing])
	for _, st := range r.list {
		if x := &st.index; (missing || st.packets.Reached() == 0) && !x.whole && !x.open && !st.packets.Down() {
			st.ask(0)
		}
	}
	return missing
}

// published reports whether a publisher that is up has the topic.
func (r *Receiver) published(id uint64) bool {
	for _, st := range r.list {
		if st.hasWanted(id) && !st.packets.Down() {
			return true
		}
	}
	return false
}

// wanting reports whether a topic of the group is or may be wanted.
func (r *Receiver) wanting() bool { return len(r.topics) > 0 || r.names.to != nil }

// wanted returns the name of a topic if it is wanted.
func (r *Receiver) wanted(id uint64) (name string, ok bool) {
	if t, ok := r.wants[id]; ok {
		return t.name, true
	}
	if r.names.to == nil || !r.names.to.Wants(id) {
		return "", false
	}
	return r.Name(id)
}

// mayWant reports whether a topic is wanted, or may be once its name is known.
func (r *Receiver) mayWant(id uint64) bool {
	_, wanted := r.wanted(id)
	return wanted || r.names.to != nil && r.names.known.Get(id) == nil
}

// Stream is the message layer of one stream: what its publisher has stated about its topics. It implements
// reliable.Contents.
type Stream struct {
	r       *Receiver
	packets *reliable.Stream
	out     Output

	relevant atomic.Bool                            // it has a wanted topic
	asked    uint64                                 // topic that the publisher asked for last; 0: none
	has      map[uint64]struct{}                    // wanted topics that it has
	collided map[uint64]*events.TopicCollisionError // reported collisions of wanted topics
	names    streamNames
	index    indexState
	history  history
	state    stateJoin
	dicts    []uint32 // reported unknown dictionaries
}

// Open returns the message layer of a new stream with that output. A Sink calls it in Open.
func (r *Receiver) Open(now reliable.Instant, st *reliable.Stream, out Output) *Stream {
	x := &Stream{r: r, packets: st, out: out}
	r.list = append(r.list, x)
	if st.Joining() {
		x.wantState(now)
	}
	if st.Reached() == 0 {
		x.index.known = true
	} else {
		x.askAll()
	}
	return x
}

// Packet implements reliable.Contents.
func (st *Stream) Packet(seq uint64, runs []byte, control bool) (follow bool) {
	if control {
		st.inspect(seq, runs)
	}
	if len(st.names.refused) > 0 {
		st.passOver(runs)
	}
	return st.index.listedAt == seq+1
}

// Delivered implements reliable.Contents.
func (st *Stream) Delivered(seq uint64) {
	st.out.Note(&Event{Kind: EventListed, Seq: seq + 1, Listing: st.index.listed})
}

// Removed implements reliable.Contents.
func (st *Stream) Removed() {
	st.r.list = slices.DeleteFunc(st.r.list, func(x *Stream) bool { return x == st })
	st.r.forgetNames(st)
}

// Status implements reliable.Contents.
func (st *Stream) Status(s *wire.Status, want bool) (flags wire.Flags, topics []uint64, all bool) {
	x := &st.index
	s.Since, s.Question = x.since, x.number
	if x.open {
		flags |= wire.FlagWantTopics
	}
	if st.state.wants() {
		flags |= wire.FlagWantState
	}
	// A question is answered for the topics that are known to the publisher.
	if all = want || x.open; all {
		if topics = st.namedTopics(); st.r.names.to != nil {
			flags |= wire.FlagMoreTopics
		}
	}
	return flags, topics, all
}

// Heartbeat implements reliable.Contents. If statuses name all topics they answer the question anyway, unless they are
// lost. A pattern may want a topic without a known name. docs/protocol §7.10.
func (st *Stream) Heartbeat(flags wire.Flags, topic uint64) (due bool) {
	st.state.heard, st.state.keeps = true, flags&wire.FlagState != 0
	if topic == 0 {
		return false
	}
	anew := st.asked != topic
	st.asked = topic // even if it is answered: later, statuses may not be able to name all wanted topics
	namesAll := st.r.names.to == nil && len(st.r.topics) <= wire.MaxTaggedTopics
	return flags&wire.FlagSolicit != 0 || !namesAll && anew
}

// namedTopics returns the topics that statuses name, first the topic asked for if it is wanted.
func (st *Stream) namedTopics() []uint64 {
	id, topics, to := st.asked, st.r.topics, st.r.named[:0]
	if id == 0 {
		return topics
	}
	if _, ok := st.r.wanted(id); !ok {
		return topics
	}
	to = append(to, id)
	for _, t := range topics {
		if len(to) == cap(to) {
			break
		}
		if t != id {
			to = append(to, t)
		}
	}
	return to
}

// Relevant reports whether the publisher is known to have a wanted topic. Any goroutine may call it.
func (st *Stream) Relevant() bool { return st.relevant.Load() }

// MayConcern reports whether the publisher has a wanted topic, or its topics are not known yet.
func (st *Stream) MayConcern() bool { return st.Relevant() || !st.index.known }

// Announced returns the names of wanted topics that the publisher has, sorted.
func (st *Stream) Announced() (names []string) {
	add := func(id uint64) {
		if name, ok := st.wantedOf(id); ok {
			names = append(names, name)
		}
	}
	for id := range st.has {
		add(id)
	}
	st.names.has.All(func(id uint64, _ *streamName) {
		if _, has := st.has[id]; !has {
			add(id)
		}
	})
	slices.Sort(names)
	return names
}
