package pubsub

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/internal/lossrecord"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// LossRecord is what a bus lost in the last hour, and what it lost on the way and could
// repair. It takes 750 KiB at most, whatever happens: of each cause the newest 64 losses
// are listed, and the others counted.
type LossRecord struct {
	// From and To say of which time it is: the last hour, or from when the bus was opened.
	From, To time.Time
	// Losses are those of this bus's subscriptions, and events that go with loss here or
	// elsewhere, oldest first.
	Losses []Loss
	// Older are losses of causes that happened more than 64 times, counted together.
	Older []stats.OlderLosses
	// Minutes are sums of the minutes in which something was lost, dropped or repaired,
	// oldest first. A packet is counted some ten seconds late at most.
	Minutes []LossMinute
	// Unrecorded counts losses that there was no room for. That takes more causes than
	// there are: it is zero.
	Unrecorded uint64
}

// Loss is one or several losses of the same messages' topic, subscription, publisher and
// cause that followed each other within a minute. Or it is an event that goes with loss.
type Loss struct {
	First, Last time.Time // when it was told
	// Cause is the label of a Cause, or if it is an event of an EventKind.
	Cause string
	// Event says that it is an event: a publisher fell silent, a subscription was ended, a
	// subscriber is not waited for any more. What was lost by that, if anything, stands by
	// itself, or is known to another bus only.
	Event bool
	Topic string // empty: none, or not known
	// Subscription is the topics of the subscription that lost the messages, the first
	// four of them.
	Subscription string
	Group        string // address
	Leg          string // of an event of one: the URL that it was opened by
	// Publisher, with PublisherName, Epoch and Address, is whose messages they are. Of
	// events that concern a subscriber of this bus's publishers these are empty, and
	// Subscriber is its random id, SubscriberName its name, Address where it is.
	Publisher      PublisherID
	PublisherName  string
	Epoch          uint64
	Address        string
	Subscriber     uint64
	SubscriberName string
	// Times is how many gaps, or events, they are.
	Times uint64
	// Number is that of the first message lost, and Messages how many were, as far as
	// known. Unknown is of how many of Times that cannot be known.
	Number, Messages, Unknown uint64
	// For and Behind are those of the event that was told last.
	For    time.Duration
	Behind uint64
	Err    string // of the event, empty if it has none
}

// OlderLosses are losses of one cause that are not listed one by one.
type OlderLosses struct {
	Cause           string
	First, Last     time.Time
	Times, Messages uint64
}

// LossMinute is what was lost, dropped and repaired in one minute.
type LossMinute struct {
	Start time.Time // the whole minute
	// Causes are those of which something was counted.
	Causes []stats.CauseCount
	// Missing counts packets that were found missing, of which Repaired came as repairs and
	// Late by themselves.
	Missing, Repaired, Late uint64
	// Ways are the publishers of which packets were missing: the eight with the most.
	Ways []LossWay
	// OtherRepaired and OtherLost are packets of the other publishers.
	OtherRepaired, OtherLost uint64
}

// CauseCount is what was counted of a cause.
type CauseCount struct {
	Cause string // its label
	// Dropped counts packets that were dropped here or lost on the way, Lost those that
	// were given up for good. Gaps and Messages are those that subscriptions were told of.
	Dropped, Lost, Gaps, Messages uint64
}

// LossWay is what was missing of one publisher in one group.
type LossWay struct {
	Publisher      PublisherID
	Name           string
	Epoch          uint64
	Address, Group string
	Repaired, Lost uint64 // packets
}

// Losses says what this bus lost in the last hour, and what it could repair. It may be
// called after Close, too.
func (b *Bus) Losses() LossRecord {
	b.loop.SampleNow()
	now := time.Now()
	return publicLossRecord(now, b.losses.Snapshot(now))
}

func labelOf(c events.Cause) string { return events.Cause(c).Label() }

// figuresOfCause is how many figures of each cause are in a sample of the record: those of
// CauseCount. Behind those of all causes come figures of all.
const figuresOfCause = 4

// sampleLosses puts all counters into the record, and returns the drops that are to be reported. Loop only.
func (b *Bus) sampleLosses(s *stats.Bus) (tell []engine.Dropped) {
	counts := make([]uint64, 0, figuresOfCause*len(causes)+3)
	for i := range causes {
		c := &causes[i]
		dropped, _ := c.Dropped(s)
		lost, _ := c.Lost(s)
		var gaps, messages uint64
		for _, x := range s.Lost {
			if c.Gap != 0 && x.Cause == c.Gap {
				gaps, messages = x.Gaps, x.Messages
			}
		}
		counts = append(counts, dropped, lost, gaps, messages)
	}
	var missing, repaired, late uint64
	var ways []lossrecord.Way
	for i := range s.Groups {
		g := &s.Groups[i]
		missing, repaired, late = missing+g.Missing, repaired+g.Repaired, late+g.Late
		for _, p := range g.Publishers {
			ways = append(ways, lossrecord.Way{
				WayKey: lossrecord.WayKey{Publisher: uint64(p.ID), Epoch: p.Epoch, Group: g.Address}, Name: p.Name, Address: p.Address,
				WayCounts: lossrecord.WayCounts{Repaired: p.Repaired, Lost: p.Lost},
			})
		}
	}
	counts = append(counts, missing, repaired, late)
	for i := range causes {
		tell = b.drops.note(tell, &causes[i], counts[figuresOfCause*i])
	}
	b.losses.Sample(s.Time, counts, ways)
	return tell
}

// publicLossRecord is the record with the types of this package.
func publicLossRecord(now time.Time, s lossrecord.Snapshot) LossRecord {
	r := LossRecord{From: s.Since, To: now, Unrecorded: s.Dropped}
	for i := range s.Entries {
		r.Losses = append(r.Losses, publicLoss(&s.Entries[i]))
	}
	for _, o := range s.Older {
		r.Older = append(r.Older, OlderLosses(o))
	}
	for i := range s.Minutes {
		r.Minutes = append(r.Minutes, publicLossMinute(&s.Minutes[i]))
	}
	return r
}

func publicLoss(e *lossrecord.Entry) Loss {
	x := Loss{
		First: e.First, Last: e.Last, Cause: e.Cause, Event: !e.Lost, Topic: e.Topic, Subscription: e.Subscription, Group: e.Group, Leg: e.Leg, Address: e.Address,
		Times: e.Times, Number: e.Number, Messages: e.Messages, Unknown: e.Unknown, For: e.For, Behind: e.Behind, Err: e.Err,
	}
	if e.Subscriber {
		x.Subscriber, x.SubscriberName = e.Peer, e.Name
	} else {
		x.Publisher, x.PublisherName, x.Epoch = PublisherID(e.Peer), e.Name, e.Epoch
	}
	return x
}

func publicLossMinute(m *lossrecord.Minute) LossMinute {
	x := LossMinute{Start: m.Start, OtherRepaired: m.OtherWays.Repaired, OtherLost: m.OtherWays.Lost}
	for i := range causes {
		n := m.Counts[figuresOfCause*i:]
		if c := (stats.CauseCount{causes[i].Label, n[0], n[1], n[2], n[3]}); c != (stats.CauseCount{Cause: c.Cause}) {
			x.Causes = append(x.Causes, c)
		}
	}
	all := m.Counts[figuresOfCause*len(causes):]
	x.Missing, x.Repaired, x.Late = all[0], all[1], all[2]
	for _, w := range m.Ways {
		x.Ways = append(x.Ways, LossWay{PublisherID(w.Publisher), w.Name, w.Epoch, w.Address, w.Group, w.Repaired, w.Lost})
	}
	return x
}

// LossEvents are the labels of the events that a LossRecord has.
func LossEvents() (labels []string) {
	for kind := range engine.LossEvents() {
		labels = append(labels, events.Kind(kind).Label())
	}
	return labels
}
