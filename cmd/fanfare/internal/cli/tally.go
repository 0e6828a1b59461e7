package cli

import (
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/internal/pattern"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// tally counts sub's messages and publishers. A publisher is ours once a message or a gap of our
// topics came from it: publishers of other topics may share the group.
type tally struct {
	jsonFaults      // those counted here
	messages, bytes uint64
	records         uint64               // of state
	stateless       map[topicOf]struct{} // topics of a publisher that began without their state

	first, last time.Time // times of the first and last message, as of mark
	marked      [2]uint64 // messages and records at the last mark
	publishers  map[pubsub.PublisherID]*publisher
	latest      *publisher // the result of the last lookup
	topics      topicTally

	shown struct { // for the status line
		messages, bytes atomic.Uint64
		gapCount        atomic.Int64
	}
}

const maxGapsListed = 1000

type publisher struct {
	id       pubsub.PublisherID
	ours     bool
	messages uint64
	faults   map[events.Fault]uint64 // protocol violations, as of the last event
	up       map[stream]bool
	lost     map[stream]bool // declared lost
	gone     bool            // no instance is up
	lostAt   time.Time       // when its loss was reported; zero: it was not, or is over
}

type stream struct {
	group string
	epoch events.ID
}

func (t *tally) init(topics []string) {
	t.publishers, t.Gaps = make(map[pubsub.PublisherID]*publisher), []jsonGap{}
	t.topics.init(topics)
}

func (t *tally) publisher(id pubsub.PublisherID) *publisher {
	if t.latest != nil && t.latest.id == id {
		return t.latest
	}
	p := t.publishers[id]
	if p == nil {
		p = &publisher{id: id, up: make(map[stream]bool), lost: make(map[stream]bool)}
		t.publishers[id] = p
	}
	t.latest = p
	return p
}

func (t *tally) message(from pubsub.PublisherID, m *pubsub.Message) {
	t.topics.message(m.Topic)
	if len(t.stateless) > 0 && m.Number == 0 {
		delete(t.stateless, topicOf{from, m.Epoch(), m.Topic}) // no message before the first is missing
	}
	p := t.publisher(from)
	p.ours = true
	p.messages++
	t.messages++
	t.bytes += uint64(len(m.Data))
	if t.messages == 1 {
		t.first = time.Now()
	}
}

func (t *tally) record(m *pubsub.Message) {
	t.publisher(m.Publisher()).ours = true
	t.topics.seen(m.Topic)
	t.records++
}

type topicOf struct {
	publisher pubsub.PublisherID
	epoch     events.ID
	topic     string
}

func (t *tally) noState(err *pubsub.StateError) {
	if t.stateless == nil {
		t.stateless = make(map[topicOf]struct{})
	}
	t.stateless[topicOf{err.Publisher, err.Epoch, err.Topic}] = struct{}{}
}

func (t *tally) total() uint64 { return t.messages + t.records }

// mark reads the clock and updates the shown counters; it is not called for each message.
func (t *tally) mark() {
	if now := [2]uint64{t.messages, t.records}; now != t.marked {
		if now[0] != t.marked[0] {
			t.last = time.Now()
		}
		t.marked = now
	}
	t.shown.messages.Store(t.messages)
	t.shown.bytes.Store(t.bytes)
	t.shown.gapCount.Store(int64(t.GapCount))
}

func (t *tally) gap(g *pubsub.GapError) {
	t.publisher(g.Publisher).ours = true
	if g.Topic != "" {
		t.topics.seen(g.Topic)
	}
	t.GapCount++
	t.Lost += g.Count
	t.LostUnknown = t.LostUnknown || g.Count == 0
	if len(t.Gaps) < maxGapsListed {
		t.Gaps = append(t.Gaps, asJSON(g))
	}
}

// event handles an event of a publisher. It reports whether the publisher is ours, and whether with
// this event all of ours have gone, and each of several topics and patterns has had one.
func (t *tally) event(e *pubsub.PublisherEvent) (ours, done bool) {
	p := t.publisher(e.Publisher)
	p.ours = p.ours || e.Relevant
	s := stream{e.Group, e.Epoch}
	switch e.Kind {
	case events.PublisherUp:
		p.up[s], p.gone = true, false
		delete(p.lost, s)
		return p.ours, false
	case events.PublisherEnded:
	case events.PublisherLost, events.PublisherRestarted:
		p.lost[s] = true
	default:
		return p.ours, false // another instance is still up
	}
	for _, topic := range e.Topics {
		t.topics.seen(topic) // count the topic even without messages
	}
	delete(p.up, s)
	p.gone = len(p.up) == 0
	return p.ours, p.ours && t.allGone()
}

func (t *tally) allGone() bool { return !t.anyUp() && t.topics.allSeen() }

func (t *tally) anyUp() bool { return t.anyOurs(func(p *publisher) bool { return len(p.up) > 0 }) }

// missing lists the topics and patterns, of several, without a publisher so far, once all others have ended.
func (t *tally) missing() []string {
	if t.topics.allSeen() || t.anyUp() {
		return nil
	}
	return slices.Sorted(maps.Keys(t.topics.missing))[:min(len(t.topics.missing), 3)]
}

// fault reports whether all of ours have gone: only after its end it may be known that this publisher is ours.
func (t *tally) fault(e *pubsub.PublisherEvent, err *events.FaultError) (done bool) {
	p := t.publisher(e.Publisher)
	p.ours = p.ours || e.Relevant || err.Topic != ""
	if p.faults == nil {
		p.faults = make(map[events.Fault]uint64)
	}
	p.faults[err.Fault] = max(p.faults[err.Fault], err.Count)
	return p.ours && p.gone && t.allGone()
}

// broken is the number of protocol violations by our publishers, as of the last events.
func (t *tally) broken() (n uint64) {
	for _, p := range t.publishers {
		if p.ours {
			for _, x := range p.faults {
				n += x
			}
		}
	}
	return n
}

func (t *tally) anyOurs(is func(*publisher) bool) bool {
	for _, p := range t.publishers {
		if p.ours && is(p) {
			return true
		}
	}
	return false
}

func (t *tally) incomplete() bool {
	return t.anyOurs(func(p *publisher) bool { return len(p.lost) > 0 })
}

func (p *publisher) state() string {
	switch {
	case len(p.lost) > 0:
		return "lost"
	case len(p.up) > 0:
		return "up"
	}
	return "ended"
}

func (t *tally) list() []jsonPublisher {
	list := []jsonPublisher{}
	for _, p := range t.publishers {
		if p.ours {
			list = append(list, jsonPublisher{p.id.String(), p.messages, p.state()})
		}
	}
	slices.SortFunc(list, func(a, b jsonPublisher) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// topicTally counts messages by topic, if several are possible. Topics of patterns are added as they appear.
type topicTally struct {
	subscribed []string // subscribed topics and patterns
	missing    map[string]pattern.Pattern
	counts     map[string]*topicCount // nil: a single topic, counted by tally
	latest     *topicCount
}

type topicCount struct {
	topic    string
	messages uint64
}

const (
	// maxTopicsListed bounds the JSON summary, maxTopicsShown the text.
	maxTopicsListed = 10_000
	maxTopicsShown  = 20
)

func (t *topicTally) init(subscribed []string) {
	t.subscribed, t.missing = subscribed, make(map[string]pattern.Pattern)
	for _, text := range subscribed {
		p, err := pattern.Parse(text) // validated before
		if err != nil {
			continue
		}
		t.missing[text] = p
		if p.Wild() || len(subscribed) > 1 {
			t.counts = make(map[string]*topicCount)
		}
	}
}

func (t *topicTally) several() bool { return t.counts != nil }

func (t *topicTally) seen(topic string) {
	delete(t.missing, topic)
	for text, p := range t.missing {
		if p.Match(topic) {
			delete(t.missing, text)
		}
	}
}

// allSeen reports whether each of several topics and patterns has had a publisher.
func (t *topicTally) allSeen() bool { return len(t.subscribed) <= 1 || len(t.missing) == 0 }

func (t *topicTally) message(topic string) {
	if t.counts == nil {
		if len(t.missing) > 0 {
			t.seen(topic)
		}
		return
	}
	c := t.latest
	if c == nil || c.topic != topic {
		if c = t.counts[topic]; c == nil {
			t.seen(topic)
			c = &topicCount{topic: topic}
			t.counts[topic] = c
		}
		t.latest = c
	}
	c.messages++
}

func (t *topicTally) list() []jsonTopicCount {
	var list []jsonTopicCount
	for _, c := range t.counts {
		list = append(list, jsonTopicCount{c.topic, c.messages})
	}
	slices.SortFunc(list, func(a, b jsonTopicCount) int { return strings.Compare(a.Topic, b.Topic) })
	return list[:min(len(list), maxTopicsListed)]
}
