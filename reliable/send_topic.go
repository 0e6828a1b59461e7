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

// topics is a publisher's list of topics, which only grows, and the state of its announces.
type topics struct {
	byID map[uint64]*Topic
	list []*Topic
	size int // bytes that a listing takes

	rest   Instant // no listing begins before
	left   int     // topics of the current listing still to be announced
	at     int     // index of the next of these
	due    Instant // when the next burst may be sent
	rotate int     // index of the next topic to announce in the idle rotation
}

// Topic returns the topic of that name, adding it at first use. It may return a *TopicCollisionError.
func (s *Sender) Topic(name string) (*Topic, error) {
	if name == "" || len(name) > wire.MaxTopicName {
		return nil, fmt.Errorf("topic name of %d bytes is not within 1..%d", len(name), wire.MaxTopicName)
	}
	id := wire.TopicID(name)
	if t := s.topics.byID[id]; t != nil {
		if t.Name != name {
			return nil, &events.TopicCollisionError{ID: events.ID(id), Known: t.Name, Other: name}
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

// Topics is the number of topics of the stream.
func (s *Sender) Topics() int { return len(s.topics.list) }

// TopicsFrom returns up to n topics of the stream, from index from on, in the order in which they were added. The slice
// must not be changed; its elements never move.
func (s *Sender) TopicsFrom(from, n int) []*Topic {
	list := s.topics.list
	from = min(from, len(list))
	return list[from:min(len(list), from+n)]
}

// announceAll begins a listing of all topics, unless one is in progress. Listings take announceRate on average. It
// reports whether a listing has begun. docs/protocol §9.3.
func (t *topics) announceAll(now Instant) bool {
	if t.left > 0 || len(t.list) == 0 {
		return false
	}
	t.left, t.at, t.due = len(t.list), 0, max(now, t.rest)
	t.rest = t.due.Add(time.Duration(t.size) * time.Second / announceRate)
	return true
}

// announcesAt is when the listing continues. The listing at the end of the stream begins after the first heartbeat with
// the end flag, because receivers use it only then. docs/protocol §9.6.
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

// unannounce resets the listing to the first announce of the last train that the transport, which took n packets, did
// not take.
func (s *Sender) unannounce(now Instant, n int) {
	if i := max(0, n-s.out.announceFrom); i < s.out.announces {
		s.topics.at = s.out.announced[i]
		s.topics.left, s.topics.due = len(s.topics.list)-s.topics.at, now.Add(announceEvery)
	}
}

// appendAnnounce adds one packet with up to limit topics from index at on. It returns the index behind them.
func (s *Sender) appendAnnounce(c *control, at, limit int) int {
	p := wire.AppendAnnounceHeader(c.begin(), s.header, s.win.next, uint32(at), uint32(len(s.topics.list)))
	n := 0
	for n < limit && at+n < len(s.topics.list) {
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
