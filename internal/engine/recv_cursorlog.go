package engine

import (
	"math/bits"
	"time"

	"github.com/fanfaremq/fanfare/internal/ring"
	"github.com/fanfaremq/fanfare/internal/slow"
	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
)

// cursorLog keeps a stream's events for the cursors that read them, and knows which cursors want which topics. Cursors
// that want none of the next packets are parked (ring.Cursor.Park), so the cost of a message does not grow with
// subscriptions to other topics. Loop only.
type cursorLog struct {
	log    *ring.Log
	in     *topics.Stream
	topics ring.Map[route]
	packet uint64 // number of packets so far
	// lost is behind the last packet that was lost, or missed by a cursor, and that no EventListed covers. Otherwise it is
	// 0, and topic runs and EventListed wake no cursor: an application may not read a subscription to a silent topic.
	lost    uint64
	closing bool // the closing round has begun: its topic runs are for cursors that missed packets
	// of the packet that was appended last
	unwanted unwanted
}

// route has the feeds that want one topic.
type route struct {
	name  string
	feeds ring.Set[*feed]
}

// moreItems is how many gaps and notes fit a log beside a window full of packets.
const moreItems = 64

// newCursorLog returns a log of a stream for a window of span packets.
func newCursorLog(in *topics.Stream, slots *ring.Slots, span int) *cursorLog {
	return &cursorLog{in: in, log: ring.NewLog(slots, 1<<bits.Len(uint(span+moreItems-1)))}
}

// room reports whether an event can be appended.
func (l *cursorLog) room() bool { return l.log.Cursors() == 0 || l.log.Room() }

// deliver appends an event. It reports whether the log keeps the packet's slot. Without cursors the log may still exist
// for closed ones, but gets no events.
func (l *cursorLog) deliver(e *reliable.Event) (kept bool) {
	if l.log.Cursors() == 0 {
		return false
	}
	switch e.Kind {
	case reliable.EventPacket:
		l.wake(reliable.PacketData(e.Packet))
		l.log.AppendPacket(e.Seq, e.Slot, e.Size())
		return true
	case reliable.EventEnd:
		l.log.End(e.Seq, &endNote{*e, l.in.Announced()})
	case reliable.EventDown:
		l.log.AppendNote(e.Seq, &endNote{*e, l.in.Announced()})
	case reliable.EventGap:
		l.lost = e.Seq + e.Count
		note := *e
		l.log.AppendNote(e.Seq, &note)
	}
	return false
}

// endNote is an EventEnd or EventDown in the log.
type endNote struct {
	reliable.Event
	announced []string // wanted topics of the publisher
}

// append appends an event of the message layer.
func (l *cursorLog) append(e *topics.Event) {
	note := *e
	switch {
	case l.log.Cursors() == 0 || e.Kind == topics.EventListed && l.lost == 0 && !l.closing:
		return
	case e.Kind == topics.EventListed && e.Listing.Begun >= l.lost:
		l.lost = 0
	case e.Kind == topics.EventState:
		note.Runs = topics.StateRuns(e.Runs) // the packet follows as an EventPacket
	}
	l.log.AppendNote(e.Seq, &note)
}

// reclaim frees the slots that all cursors have read. If none is free then, cursors that do not block lose up to n
// packets.
func (l *cursorLog) reclaim(n int) {
	if l.log.Reclaim(); l.log.Slots().Free() == 0 {
		l.log.Overtake(n)
	}
}

// heldFor is how long a closed cursor may keep the packet that it was reading. Packets kept so take an eighth of the
// window at most.
const heldFor = 10 * time.Second

// tend frees what has been read, and what closed cursors have kept for too long.
func (l *cursorLog) tend(now reliable.Instant, span int) {
	l.log.Reclaim()
	l.log.Expire(int64(now), int64(heldFor), max(1, span/8))
}

// wake wakes the cursors that want a topic of the packet with these runs, which is appended next.
func (l *cursorLog) wake(runs []byte) {
	l.packet++
	l.unwanted = unwanted{}
	for {
		run, rest, ok := wire.NextRun(runs)
		if !ok {
			return
		}
		runs = rest
		if run.Kind == wire.RunState {
			continue // only late joiners need state
		}
		l.closing = l.closing || run.Kind == wire.RunIndex && wire.ParseIndex(run.Body).Closes(run.Number)
		x := l.topics.Get(run.Topic)
		if x == nil {
			l.unwanted.run(&run)
			continue
		}
		if run.Kind == wire.RunTopic && l.lost == 0 && !l.closing && string(run.Body) == x.name {
			continue
		}
		for _, f := range x.feeds.List() {
			if f.packet != l.packet {
				f.packet = l.packet
				f.c.Wake()
			}
			if f.s.policy.Kind == slow.Latest && run.Kind < wire.RunTopic && begins(run) {
				f.newest.Store(l.log.Head())
			}
		}
	}
}

// begins reports whether a message begins in the run, so that a reader that starts there misses no part of it.
func begins(run wire.Run) bool {
	if run.Kind != wire.RunFragment {
		return true
	}
	f, err := wire.ParseFragment(run.Body)
	return err == nil && f.Offset == 0
}
