package topics

import (
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/internal/pattern"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// Lister finds out which topics the publishers of one group have, and how fast they publish, without receiving their
// streams. It requests only names, and publishers do not count it as a subscriber. One goroutine uses it. docs/protocol
// §9.10.
type Lister struct {
	cfg      reliable.ReceiverConfig
	unpacker wire.Unpacker
	peers    reliable.Sources
	streams  map[events.Instance]*Listed
	list     []*Listed // in the order of detection
	ask      []*Listed // to be asked next
	names    map[uint64]string
	budget   *ListBudget
	stats    ListerStats
	packet   []byte // the last compressed packet, unpacked
}

// ListBudget bounds the topics that Listers remember. A topic of two publishers counts twice.
type ListBudget struct{ Topics int }

// NewListBudget returns the usual budget.
func NewListBudget() *ListBudget { return &ListBudget{events.PatternTopics} }

// ListerStats are the counters of a Lister.
type ListerStats struct {
	Topics       uint64 // topics beyond the budget, each time that one appeared
	NamesRefused uint64 // names that do not belong to their topic ids
	Streams      uint64 // packets of publishers beyond MaxStreams
	Asked        uint64 // requests for names
}

// Add adds the counters of another Lister.
func (s *ListerStats) Add(x ListerStats) {
	s.Topics += x.Topics
	s.NamesRefused += x.NamesRefused
	s.Streams += x.Streams
	s.Asked += x.Asked
}

// Listed is what a Lister knows of one stream.
type Listed struct {
	reliable.Origin
	Since, Heard reliable.Instant // time of the first and of the last packet
	topics       map[uint64]*ListedTopic

	peer     uint32
	tag      uint32
	checksum bool
	first    uint64 // sequence of the first packet
	next     uint64 // one beyond the newest packet that was heard
	behind   bool   // newer packets were sent
	complete bool   // a round has stated that there are no more topics
	askAt    reliable.Instant
	wait     time.Duration // time until it is asked again
	asking   bool          // it is in Lister.ask
	asked    int
	named    int    // number of topics with a name
	over     bool   // there was no room for a topic, so it cannot be complete
	runs     uint64 // topic runs so far
	swept    uint64 // runs when it was last checked which topics are forgotten
}

// ListedTopic is what a Lister knows of a topic of a stream.
type ListedTopic struct {
	ID    uint64
	Name  string // empty: unknown
	First uint64 // number of the first message since the lister found the stream
	Next  uint64 // number of its next message

	stated uint64 // Listed.runs with its last topic run, or when it was found
}

const (
	// listAskFirst is how long a publisher has to list its topics before it is asked again, and listAskLast the
	// longest such time.
	listAskFirst = 100 * time.Millisecond
	listAskLast  = time.Second
	// listShare is the inverse of the share of the budget that one stream may use.
	listShare = 2
)

// NewLister returns a lister of one group, with the configuration of a receiver of that group.
func NewLister(cfg reliable.ReceiverConfig, u wire.Unpacker, peers reliable.Sources, budget *ListBudget) *Lister {
	if len(cfg.LegTags) == 0 {
		cfg.LegTags = []uint32{cfg.GroupTag}
	}
	return &Lister{
		cfg: cfg, unpacker: u, peers: peers, budget: budget,
		streams: make(map[events.Instance]*Listed), names: make(map[uint64]string),
	}
}

// Streams returns the streams found. The slice belongs to l.
func (l *Lister) Streams() []*Listed { return l.list }

// Stats returns the counters.
func (l *Lister) Stats() ListerStats { return l.stats }

// Complete reports whether all topics of the publisher are known.
func (x *Listed) Complete() bool { return x.complete }

// Topics calls f with each topic of the stream.
func (x *Listed) Topics(f func(*ListedTopic)) {
	for _, t := range x.topics {
		f(t)
	}
}

// Len returns the number of topics of the stream.
func (x *Listed) Len() int { return len(x.topics) }

func (l *Lister) tagOf(of events.Instance) (tag uint32, ok bool) {
	if x := l.streams[of]; x != nil {
		return x.tag, true
	}
	return 0, false
}

// Handle handles a packet of the group. from identifies its sender for peers.
func (l *Lister) Handle(now reliable.Instant, from uint64, b []byte) {
	h, ok := l.cfg.Check(now, from, b, l.tagOf)
	if !ok {
		return
	}
	switch h.Type {
	case wire.TypeData:
		d, err := wire.ParseData(b)
		if err != nil || h.Flags&wire.FlagRepair != 0 {
			return
		}
		if x := l.stream(now, from, &h, d.Seq); x != nil && d.Seq >= x.first {
			x.next = max(x.next, d.Seq+1)
			l.data(x, l.runs(b, &d))
		}
	case wire.TypeHeartbeat:
		hb, err := wire.ParseHeartbeat(b)
		if err != nil {
			return
		}
		if d := l.cfg.Discovery; d != nil {
			d.Heartbeat(from, now, h, hb, l.cfg.LegTags)
		}
		if h.Flags&wire.FlagEnd != 0 && l.streams[h.Instance()] == nil {
			return
		}
		if x := l.stream(now, from, &h, hb.Lead); x != nil {
			x.Name = wire.CleanName(hb.Name)
			x.behind = hb.Lead > x.next
			l.mayAsk(now, from, x)
		}
	}
}

// stream returns the stream that h names, which is at sequence seq; nil: there is no room for it.
func (l *Lister) stream(now reliable.Instant, from uint64, h *wire.Header, seq uint64) *Listed {
	key := h.Instance()
	if x := l.streams[key]; x != nil {
		x.Heard = now
		return x
	}
	if len(l.list) >= l.cfg.MaxStreams {
		l.stats.Streams++
		return nil
	}
	peer, ok := l.peers.Retain(from)
	if !ok {
		l.stats.Streams++
		return nil
	}
	x := &Listed{
		Origin: reliable.Origin{Instance: key, Address: l.peers.Address(from)},
		Since:  now, Heard: now, topics: make(map[uint64]*ListedTopic),
		peer: peer, tag: h.GroupTag, checksum: h.Flags&wire.FlagChecksum != 0, first: seq, next: seq,
		askAt: now, wait: listAskFirst,
	}
	l.streams[key] = x
	l.list = append(l.list, x)
	return x
}

func (l *Lister) data(x *Listed, runs []byte) {
	for {
		run, rest, ok := wire.NextRun(runs)
		if !ok {
			return
		}
		runs = rest
		switch run.Kind {
		case wire.RunTopic:
			l.learn(x, run.Topic, run.Body, run.Number)
			continue
		case wire.RunIndex:
			// The topics that were heard are the publisher's, so if they are as many they are all.
			if i := wire.ParseIndex(run.Body); i.Marks&wire.IndexEnds != 0 {
				x.complete = uint64(x.named) >= run.Number
			}
			continue
		case wire.RunState:
			continue // the topic's messages have its name and number
		}
		t := l.topic(x, run.Topic, run.Number)
		if t == nil {
			continue
		}
		if t.Name == "" {
			if t.Name = l.names[run.Topic]; t.Name == "" {
				x.complete = false // the packet with its name was lost
			} else {
				x.named++
			}
		}
		t.reaches(run.Number, run.Number+run.Messages())
	}
}

// runs returns the runs of a data packet; none if it cannot be unpacked.
func (l *Lister) runs(b []byte, d *wire.Data) []byte {
	if d.Codec == wire.CodecNone || l.unpacker == nil {
		return d.Runs
	}
	p, err := wire.Unpack(l.unpacker, l.packet, b)
	if err != nil {
		return nil
	}
	l.packet = p
	return reliable.PacketData(p)
}

// Messages is the number of messages that the publisher has published on the topic since it remembers the topic.
func (t *ListedTopic) Messages() uint64 { return t.Next % wire.Returning }

// reaches records messages from number to next. If the topic returns they are its first ones. docs/protocol §10.9.
func (t *ListedTopic) reaches(number, next uint64) {
	if wire.Returns(t.Next, number) {
		t.First = number
	}
	t.Next = max(t.Next, next)
}

// learn records the name of a topic, and the number of its next message.
func (l *Lister) learn(x *Listed, id uint64, name []byte, next uint64) {
	if x.runs++; x.runs-x.swept >= wire.TopicRuns/32 {
		l.forgetOld(x)
	}
	t := l.topic(x, id, next)
	if t == nil {
		return
	}
	t.reaches(next, next)
	if t.stated = x.runs; t.Name != "" {
		return
	}
	text, known := l.names[id]
	if !known || text != string(name) {
		var ok bool
		if text, ok = pattern.NameOf(id, name); !ok {
			l.stats.NamesRefused++
			if t.First == t.Next { // only the wrong name was received
				l.forget(x, t)
			}
			return
		}
		l.names[id] = text
	}
	t.Name = text
	x.named++
}

// topic returns a topic of the stream; nil: there is no room for it. next is the number of its next message, as far as
// known.
func (l *Lister) topic(x *Listed, id, next uint64) *ListedTopic {
	if t := x.topics[id]; t != nil {
		return t
	}
	if l.budget.Topics <= 0 || len(x.topics) >= events.PatternTopics/listShare {
		l.stats.Topics++
		x.over = true
		return nil
	}
	l.budget.Topics--
	t := &ListedTopic{ID: id, First: next, Next: next, stated: x.runs}
	x.topics[id] = t
	return t
}

// forgetOld forgets the topics of a stream that have had no topic run for long. docs/protocol §10.8.
func (l *Lister) forgetOld(x *Listed) {
	x.swept = x.runs
	for _, t := range x.topics {
		if x.runs-t.stated >= wire.TopicRuns {
			l.forget(x, t)
		}
	}
}

// forget removes a topic of a stream, and its name if no other stream has the topic.
func (l *Lister) forget(x *Listed, t *ListedTopic) {
	delete(x.topics, t.ID)
	l.budget.Topics++
	if t.Name != "" {
		x.named--
	}
	if !slices.ContainsFunc(l.list, func(x *Listed) bool { return x.topics[t.ID] != nil }) {
		delete(l.names, t.ID)
	}
}

// mayAsk queues a request for a publisher's topics, if more may become known. Only heartbeats lead to one: they are
// larger than the request, so no packet makes this host send more than it received. A publisher that does not answer
// may have moved.
func (l *Lister) mayAsk(now reliable.Instant, from uint64, x *Listed) {
	if x.complete && !x.behind || x.over || now < x.askAt || x.asking {
		return
	}
	if x.asked > 1 {
		if peer, ok := l.peers.Retain(from); ok {
			l.peers.Forget(x.peer)
			x.peer, x.Address = peer, l.peers.Address(from)
		}
	}
	x.asking, x.askAt = true, now.Add(x.wait)
	x.wait = min(2*x.wait, listAskLast)
	l.ask = append(l.ask, x)
}

// Next appends the next packet to send to buf, and returns it with the peer that it goes to. It returns false when
// there is none.
func (l *Lister) Next(buf []byte) (peer uint32, packet []byte, ok bool) {
	if len(l.ask) == 0 {
		return 0, nil, false
	}
	x := l.ask[0]
	l.ask = append(l.ask[:0], l.ask[1:]...)
	x.asking = false
	x.asked++
	l.stats.Asked++
	h := wire.Header{GroupTag: x.tag, Publisher: x.Publisher, Epoch: x.Epoch,
		Flags: wire.FlagLeaving | wire.FlagWantTopics}
	s := wire.Status{Receiver: l.cfg.ID, Question: uint32(x.asked)}
	if x.complete {
		s.Since = x.next
	}
	packet = wire.AppendStatus(buf, h, &s, nil)
	if l.cfg.Checksum || x.checksum {
		wire.SetChecksum(packet)
	}
	return x.peer, packet, true
}

// Close releases all peers.
func (l *Lister) Close() {
	for _, x := range l.list {
		l.peers.Forget(x.peer)
	}
	l.list, l.ask = nil, nil
}
