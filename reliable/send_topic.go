package reliable

import (
	"fmt"
	"sync/atomic"
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
	at     int     // index in list of the next topic to announce
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

// naming tracks whether receivers can know a topic's name. They learn it from a topic run, which precedes the topic's
// first message (docs/protocol §10.8).
//
// Writers fill their packets independently, and the order of their packets is known only when these get their
// sequences. So each Writer puts the name before its own first message of the topic, until a packet with the name has
// its sequence.
type naming struct{ by atomic.Pointer[Writer] }

// namedBefore marks a topic with a name in a packet with a sequence.
var namedBefore = new(Writer)

// missing reports whether w must put the name before its next message. If writers alternate it may say so again:
// receivers ignore repeated names.
func (n *naming) missing(w *Writer) bool {
	by := n.by.Load()
	return by != namedBefore && by != w
}

// name adds the name of t to the open packet, or to the next one. It reports false if there is no room.
func (w *Writer) name(t *Topic) bool {
	n := wire.RunHeaderLen + len(t.Name)
	if w.packet == nil || w.off+n > w.s.cfg.PacketSize {
		if !w.nextPacket() {
			return false
		}
	}
	w.endRun()
	wire.PutTopicRun(w.packet[w.off:w.off+n], t.ID, t.Name)
	w.runs = append(w.runs, runRef{topic: t, off: w.at(), name: true})
	w.off += n
	w.endTail()
	if by := t.naming.by.Load(); by != namedBefore {
		t.naming.by.CompareAndSwap(by, w)
	}
	return true
}

// nameAssigned records that a packet with the topic's name has its sequence.
func (t *Topic) nameAssigned() { t.naming.by.Store(namedBefore) }
