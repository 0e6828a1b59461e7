package reliable

import (
	"fmt"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Topic is one topic of a Sender's stream.
type Topic struct {
	ID        uint64
	Name      string
	next      uint64 // number of the next message to be assigned
	naming    naming
	delivered delivered
}

// Next is the number that the topic's next message will get.
func (t *Topic) Next() uint64 { return t.next }

// topics is a publisher's list of topics, which only grows, and the announcing of it.
type topics struct {
	byID map[uint64]*Topic
	list []*Topic
	size int // bytes that an announcement of all takes

	rest   Instant // no announcement begins before
	left   int     // topics of the running cycle still to be announced
	at     int     // index of the next one
	due    Instant // when the next burst may go
	rotate int     // index of the next one to announce when idle
}

// Topic returns the topic of that name, adding it at first use. It fails with a *TopicCollisionError.
func (s *Sender) Topic(name string) (*Topic, error) {
	if name == "" || len(name) > wire.MaxTopicName {
		return nil, fmt.Errorf("topic name of %d bytes is not within 1..%d", len(name), wire.MaxTopicName)
	}
	id := wire.TopicID(name)
	if t := s.topics.byID[id]; t != nil {
		if t.Name != name {
			return nil, &events.TopicCollisionError{ID: id, Known: t.Name, Other: name}
		}
		return t, nil
	}
	t := &Topic{ID: id, Name: name}
	if s.topics.byID == nil {
		s.topics.byID = make(map[uint64]*Topic)
	}
	s.topics.byID[id] = t
	s.topics.list = append(s.topics.list, t)
	s.topics.size += wire.AnnounceEntryLen(name)
	return t, nil
}

// Topics is how many topics the stream has.
func (s *Sender) Topics() int { return len(s.topics.list) }

// TopicsFrom returns up to n topics of the stream, from the index from on, in the order in
// which they were added. The slice must not be changed; what it has stays in its place.
func (s *Sender) TopicsFrom(from, n int) []*Topic {
	list := s.topics.list
	from = min(from, len(list))
	return list[from:min(len(list), from+n)]
}

// announceAll begins a cycle through all topics, or leaves a running one be. Whatever is asked for, all of them
// together take announceRate. It reports whether it has begun one. docs/protocol §9.3.
func (t *topics) announceAll(now Instant) bool {
	if t.left > 0 || len(t.list) == 0 {
		return false
	}
	t.left, t.at, t.due = len(t.list), 0, max(now, t.rest)
	t.rest = t.due.Add(time.Duration(t.size) * time.Second / announceRate)
	return true
}

// announcesAt is when the announcement continues. That of the end begins after the first heartbeat that says that the
// stream ends, for only then receivers listen. docs/protocol §9.6.
func (s *Sender) announcesAt() Instant {
	switch t := &s.topics; {
	case t.left == 0:
		return Never
	case s.end.begun && s.heartbeat.sinceRestart == 0:
		return max(t.due, s.heartbeat.due)
	default:
		return t.due
	}
}

// appendAnnounces adds the announces that are due to the control train. docs/protocol §9.6.
func (s *Sender) appendAnnounces(now Instant, c *control) {
	t := &s.topics
	if now < s.announcesAt() || c.full() {
		return
	}
	for range announceBurst {
		if t.left == 0 || c.full() {
			break
		}
		if s.out.announces == 0 {
			s.out.announceFrom = c.count
		}
		s.out.announced[s.out.announces] = t.at
		s.out.announces++
		t.at = s.appendAnnounce(c, t.at, t.left)
		t.left = len(t.list) - t.at
	}
	t.due = now.Add(announceEvery)
}

// unannounce goes back to the first topics of the last train that were not announced in one of the n packets that the
// transport took.
func (s *Sender) unannounce(now Instant, n int) {
	if i := max(0, n-s.out.announceFrom); i < s.out.announces {
		s.topics.at = s.out.announced[i]
		s.topics.left, s.topics.due = len(s.topics.list)-s.topics.at, now.Add(announceEvery)
	}
}

// appendAnnounce adds one packet with up to most topics from index at on, and returns the index behind them.
func (s *Sender) appendAnnounce(c *control, at, most int) int {
	p := wire.AppendAnnounceHeader(c.begin(), s.header, s.win.next, uint32(at), uint32(len(s.topics.list)))
	n := 0
	for n < most && at+n < len(s.topics.list) {
		t := s.topics.list[at+n]
		if len(p)+wire.AnnounceEntryLen(t.Name) > s.cfg.PacketSize {
			break
		}
		p = wire.AppendTopicState(p, t.ID, t.next, t.Name)
		n++
	}
	wire.FinishAnnounce(p, n)
	c.end(p)
	s.stats.AnnouncesSent++
	return at + n
}

// rotateAnnounce adds one packet of the idle rotation. docs/protocol §9.6.
func (s *Sender) rotateAnnounce(c *control) {
	t := &s.topics
	if len(t.list) == 0 || t.left > 0 || c.full() {
		return
	}
	t.rotate = s.appendAnnounce(c, t.rotate%len(t.list), len(t.list)) % len(t.list)
}
