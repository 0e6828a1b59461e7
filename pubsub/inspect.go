package pubsub

import (
	"context"
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// What a bus shows to other processes on this host, in the types of package inspect.

// view is a bus as an inspect.Source.
type view struct{ b *Bus }

// Inspect implements inspect.Source.
func (v view) Inspect(ctx context.Context) inspect.Bus {
	b := v.b
	subs := b.shownSubscriptions()
	at := make([]*engine.Subscription, 0, len(subs))
	for _, s := range subs[:min(len(subs), inspect.MaxSubscriptions)] {
		at = append(at, s.s)
	}
	look := b.loop.Inspect(ctx, at, engine.InspectionLimits{Topics: inspect.MaxTopics, Names: inspect.MaxSubscribed})
	st := &look.Bus
	x := inspect.Bus{
		Identity: b.identity(), Closing: look.Closing, Ended: errorText(b.loop.EndedErr()),
		Fabric:   b.shownFabric(),
		Counters: inspect.CountersOf(&st.Transport), Causes: shownCauses(st), Losses: b.shownLossRecord(),
		Repair: shownLatency(&st.Distributions.Repair), Delivery: shownLatency(&st.Distributions.Delivery),
		TopicsLeftOut: look.TopicsLeft, SubscriptionsLeftOut: len(subs) - len(at),
		Events: v.Events(0), EventCounts: make(map[string]uint64),
	}
	if !look.Ended {
		x.Incomplete = errorText(look.Err)
	}
	x.Counters.Add("", st)
	subscriber, publisher := b.loop.Undetected()
	x.NoSubscriber, x.NoPublisher = subscriber.Seconds(), publisher.Seconds()
	for _, e := range st.Events {
		if e.Count > 0 {
			x.EventCounts[e.Kind.Label()] = e.Count
		}
	}
	for i := range st.Groups {
		x.Groups = append(x.Groups, shownGroup(&st.Groups[i]))
	}
	for i := range st.Publications {
		x.Publications = append(x.Publications, shownPublication(&st.Publications[i]))
	}
	for _, t := range look.Topics {
		x.Topics = append(x.Topics,
			inspect.Topic{Name: t.Name, Group: t.Group, Messages: t.Messages, Subscribers: t.Subscribers})
	}
	for i := range look.Subscriptions {
		subs[i].newest.Count(&look.Subscriptions[i].Subscription)
		x.Subscriptions = append(x.Subscriptions, subs[i].shown(&look.Subscriptions[i]))
	}
	for i := range st.Legs {
		l := &st.Legs[i]
		leg := inspect.Leg{URL: l.URL, Up: l.Up, Silent: l.Silent, Skew: microseconds(l.Skew),
			Counters: inspect.CountersOf(l)}
		leg.Counters.Add("transport_", &l.Transport)
		x.Legs = append(x.Legs, leg)
	}
	return x
}

// Events implements inspect.Source.
func (v view) Events(after uint64) []inspect.Event {
	id := v.b.ID().String()
	var all []inspect.Event
	for _, r := range v.b.loop.RecentEvents(after) {
		e := publicEvent(r.Event)
		x := inspect.Event{
			Sequence: r.Sequence, Time: r.Time, Bus: id, Kind: e.Kind.Label(),
			Text: e.String(), Group: e.Group, Publisher: idText(e.Publisher), Epoch: e.Epoch,
			Subscriber: idText(e.Subscriber), Name: e.Name, Address: e.Address,
			Topics: e.Topics, Leg: e.Leg, Cause: e.Cause, For: e.For.Seconds(), Behind: e.Behind, Error: errorText(e.Err),
		}
		all = append(all, x)
	}
	return all
}

// idText is an id, or empty if it is 0.
func idText(id events.ID) string {
	if id == 0 {
		return ""
	}
	return id.String()
}

func (b *Bus) identity() inspect.Identity {
	return inspect.Identity{ID: b.ID().String(), Epoch: b.loop.Instance().Epoch, Name: b.cfg.Name, Tag: b.cfg.Tag,
		ShownAs: shownName(b.cfg.Name), URLs: b.fabric.urls, Since: b.fabric.since}
}

func (b *Bus) shownFabric() inspect.Fabric {
	c := b.Capabilities()
	return inspect.Fabric{Transport: c.Name, Groups: c.Groups, PacketSize: c.PacketSize, GSO: c.GSO,
		GRO: c.GRO, Open: b.fabric.open, Buffers: b.fabric.buffers, Interfaces: b.fabric.interfaces}
}

// shownSubscriptions are the open subscriptions, in the order in which they were made.
func (b *Bus) shownSubscriptions() []*Subscription {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]*Subscription, 0, len(b.subs))
	for s := range b.subs {
		all = append(all, s)
	}
	slices.SortFunc(all, func(x, y *Subscription) int { return int(x.number) - int(y.number) })
	return all
}

func (s *Subscription) shown(l *engine.SubscriptionInspection) inspect.Subscription {
	x := inspect.Subscription{
		Number: s.number, Topics: l.Names, TopicsLeftOut: max(0, l.Topics-len(l.Names)), Handler: s.worker != nil ||
			s.s.Handled(),
		Policy: s.policy, From: s.from.String(), Messages: l.Messages, Pending: l.Pending,
		Replaced: l.Replaced, Waiting: l.Waiting, WaitingBytes: l.WaitingBytes,
		Lost: shownLosses(l.Lost), Ended: errorText(s.s.Err()),
	}
	if x.Topics == nil {
		x.Topics = []string{s.topic} // the bus's goroutine, which has the full list, did not answer
	}
	slices.SortStableFunc(l.Publishers, func(a, b stats.SubscriptionPublisher) int { return b.Lag - a.Lag })
	for _, p := range l.Publishers[:min(len(l.Publishers), inspect.MaxFeeds)] {
		x.Publishers = append(x.Publishers, inspect.SubscriptionFeed{
			Publisher: p.Publisher.String(), Name: p.Name, Epoch: p.Epoch, Group: p.Group,
			Lag: p.Lag, Window: p.Window, Relevant: p.Relevant, Blocking: p.Blocking,
			Unread: p.Unread.Seconds(), LostFor: p.LostFor.Seconds(),
		})
	}
	return x
}

func shownGroup(g *stats.Group) inspect.Group {
	x := inspect.Group{Address: g.Address, Joined: g.Joined, Topics: g.Topics, WindowBytes: g.Windows,
		Counters: inspect.CountersOf(g)}
	for _, p := range g.Publishers {
		x.Streams = append(x.Streams, inspect.Stream{
			Publisher: p.ID.String(), Name: p.Name, Epoch: p.Epoch, Packets: p.Packets, Repaired: p.Repaired,
			Lost: p.Lost, Missing: p.Missing, Address: p.Address, LostFor: p.LostFor.Seconds(),
		})
	}
	return x
}

func shownPublication(p *stats.Publication) inspect.Publication {
	x := inspect.Publication{
		Address: p.Address, Lead: p.Lead, RTT: microseconds(p.RTT), MemoryBytes: p.MemoryBytes,
		SendCall: microseconds(p.SendCost), Counters: inspect.CountersOf(&p.Sender),
	}
	if p.Blocked != events.ReasonNone {
		x.Blocked = p.Blocked.String()
	}
	x.Stuck = p.Stuck.Seconds()
	for _, m := range p.Subscribers {
		x.Subscribers = append(x.Subscribers, inspect.Subscriber{
			ID: m.ID.String(), Name: m.Name, Address: m.Address, Tag: m.Tag, Behind: m.Behind, Room: m.Room,
			Heard: m.LastHeard.Seconds(), Unanswered: m.Unanswered.Seconds(),
			Holds: m.Holds, Released: m.Released, HeldFor: m.HeldFor.Seconds(), Unreached: m.Unreached,
		})
	}
	return x
}

// shownCauses are the causes with a count above zero, in the order of Causes.
func shownCauses(st *stats.Bus) (all []stats.CauseCount) {
	for _, c := range countCauses(st) {
		if c != (stats.CauseCount{Cause: c.Cause}) {
			all = append(all, c)
		}
	}
	return all
}

func shownLosses(lost []stats.Loss) (all []stats.CauseCount) {
	for _, l := range lost {
		if l.Gaps > 0 {
			all = append(all, stats.CauseCount{Cause: l.Cause.Label(), Gaps: l.Gaps, Messages: l.Messages})
		}
	}
	return all
}

func shownLatency(of *stats.Distribution) inspect.Latency {
	l := of.Latency()
	return inspect.Latency{
		Count: l.Count, P50: microseconds(l.P50), P90: microseconds(l.P90),
		P99: microseconds(l.P99), Max: microseconds(l.Max), Buckets: of.All(),
	}
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
