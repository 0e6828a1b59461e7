package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/losses"
	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// Between returns the figures of an observation, with rates since the one before, if there is one.
func Between(before, now Observation) *Figures {
	f := &Figures{
		Type: "top", Time: now.Time, Buses: []Bus{}, Topics: []Topic{}, Subscriptions: []Subscription{}, Streams: []Stream{},
		Subscribers: []Subscriber{}, Groups: []Group{}, Losses: []Loss{}, Legs: []Leg{}, Events: []Event{},
	}
	if !before.Time.IsZero() {
		f.Interval = now.Time.Sub(before.Time).Seconds()
	}
	t := &f.Total
	for _, r := range []*Rate{
		&t.SentRate, &t.SentBytesRate, &t.ReceivedRate, &t.ReceivedBytes, &t.DeliveredRate, &t.RepairRate, &t.RepairsSent,
		&t.MissingRate, &t.RepairP50, &t.RepairP99, &t.DeliveryP50, &t.DeliveryP99, &t.SocketDropRate,
	} {
		*r = unknown
	}
	f.undetected, f.undetectedAt = losses.FindUndetected(now.Seen), make(map[undetectedKey]*losses.Undetected)
	for i := range f.undetected {
		u := &f.undetected[i]
		f.undetectedAt[undetectedKey{u.BusKey, u.Publishes}] = u
	}
	earlier := make(map[busKey]*inspect.Bus)
	for p, b := range losses.Buses(before.Seen) {
		earlier[keyOf(p, b)] = b
	}
	groups := make(map[groupKey]*Group)
	for i := range now.Seen {
		s := now.Seen[i].Snapshot
		if s == nil {
			f.Failed = append(f.Failed, Failed{now.Seen[i].Socket, losses.Unanswered(now.Seen[i].Err)})
			continue
		}
		if !s.Process.Heard() {
			f.Total.Processes++
			f.Host.Name, f.Host.ReceiveBufferMax = s.Process.Host, s.Host.ReceiveBufferMax
		}
		for j := range s.Buses {
			b := &s.Buses[j]
			x := &pair{now: b, of: Of{s.Process.Name(), s.Process.PID, cmp.Or(b.Name, b.ID), b.ID, keyOf(&s.Process, b)},
				before: &inspect.Bus{}}
			if was, ok := earlier[x.of.key]; ok {
				x.before, x.seconds = was, f.Interval // not by the clock of that process, which may be set
			}
			f.add(x, groups)
		}
	}
	for _, g := range groups {
		if len(g.Publishers) == 0 && !(g.Received > 0) && g.Unjoined == 0 {
			continue // joined for a pattern, and quiet
		}
		g.Publishers, g.Subscribers = unique(g.Publishers), unique(g.Subscribers)
		f.Groups = append(f.Groups, *g)
	}
	slices.SortFunc(f.Groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Interface, b.Interface))
	})
	f.Events = fold(f.Events, func(e *Event) string { return e.same + "\x00" + e.Event.Group })
	f.shownEvents = fold(f.Events, func(e *Event) string { return e.same })
	return f
}

// fold makes one event of those with the same key: the latest of them. The latest of all is the first.
func fold(all []Event, key func(*Event) string) []Event {
	slices.SortStableFunc(all, func(a, b Event) int { return b.Event.Time.Compare(a.Event.Time) })
	at, folded := make(map[string]int), []Event{}
	for _, e := range all {
		i, had := at[key(&e)]
		if !had {
			at[key(&e)], e.groups = len(folded), 1
			folded = append(folded, e)
			continue
		}
		folded[i].Times += e.Times
		folded[i].groups++
	}
	return folded
}

type pair struct {
	of          Of
	now, before *inspect.Bus
	seconds     float64 // between them; 0: the bus was not there before
}

// rate is how many a second came between the snapshots: not known where a count is missing in one of them.
func (x *pair) rate(now, before uint64) Rate {
	if x.seconds <= 0 || now < before || before == 0 && x.before.Incomplete != "" {
		return unknown
	}
	return Rate(float64(now-before) / x.seconds)
}

// none is the rate of what there is nothing of: not known of a bus that did not say all.
func (x *pair) none() Rate {
	if x.now.Incomplete != "" {
		return unknown
	}
	return x.rate(0, 0)
}

func (x *pair) counted(name string, now, before inspect.Counters) Rate {
	return x.rate(now[name], before[name])
}

func (f *Figures) add(x *pair, groups map[groupKey]*Group) {
	row := Bus{
		Of: x.of, URLs: x.now.URLs, Since: x.now.Since, State: stateOK, Problem: cmp.Or(x.now.Ended, x.now.Incomplete),
		GSO: x.now.Fabric.GSO, GRO: x.now.Fabric.GRO,
		SentRate: x.none(), ReceivedRate: x.none(), DeliveredRate: x.none(), DropRate: x.none(),
		TopicsLeftOut: x.now.TopicsLeftOut, SubscriptionsLeftOut: x.now.SubscriptionsLeftOut, seen: x.now,
	}
	if x.now.Repair.Count > 0 {
		row.Repair = &x.now.Repair
	}
	if x.now.Delivery.Count > 0 {
		row.Delivery = &x.now.Delivery
	}
	switch {
	case x.now.Ended != "":
		row.State = stateFailed
	case x.now.Incomplete != "":
		row.State = stateBusy
	case x.now.Closing:
		row.State = stateClosing
	default:
		for _, publishes := range []bool{true, false} {
			if u := f.undetectedOf(&x.of, publishes); u != nil {
				row.State, row.Problem = stateUndetected, u.Text()
			}
		}
	}
	if len(x.now.Fabric.Buffers) > 0 {
		row.Buffers = x.now.Fabric.Buffers[0]
	}
	for _, b := range x.now.Fabric.Buffers {
		f.Host.Sockets++
		if b.ReceiveGranted < b.ReceiveAsked {
			f.Host.SmallSockets++
		}
	}
	f.addPublished(x, &row, groups)
	f.addReceived(x, &row, groups)
	f.addSubscriptions(x, &row)
	f.addLosses(x, &row)
	for i := range x.now.Legs {
		l := &x.now.Legs[i]
		was := cmp.Or(first(x.before.Legs, func(y *inspect.Leg) bool { return y.URL == l.URL }), new(inspect.Leg))
		f.Legs = append(f.Legs, Leg{
			Of: x.of, URL: l.URL, Up: l.Up, Silent: l.Silent, Skew: l.Skew, Rate: x.counted("packets", l.Counters, was.Counters),
			Lost: l.Counters["lost"], Filled: l.Counters["filled"],
		})
	}
	for _, e := range x.now.NamedEvents() {
		f.Events = append(f.Events, Event{Of: x.of, Event: e, Times: 1, same: fmt.Sprint(x.of.key, e.Same())})
	}
	t := &f.Total
	t.SentRate, t.ReceivedRate = t.SentRate.add(row.SentRate), t.ReceivedRate.add(row.ReceivedRate)
	t.DeliveredRate, t.SocketDropRate = t.DeliveredRate.add(row.DeliveredRate), t.SocketDropRate.add(row.DropRate)
	for _, r := range []*Rate{&t.SentBytesRate, &t.ReceivedBytes, &t.RepairRate, &t.RepairsSent, &t.MissingRate} {
		*r = r.add(x.none())
	}
	t.Add(row.Repairs)
	if row.Repair != nil {
		t.RepairP50, t.RepairP99 = t.RepairP50.larger(Rate(row.Repair.P50)), t.RepairP99.larger(Rate(row.Repair.P99))
	}
	if row.Delivery != nil {
		t.DeliveryP50 = t.DeliveryP50.larger(Rate(row.Delivery.P50))
		t.DeliveryP99 = t.DeliveryP99.larger(Rate(row.Delivery.P99))
	}
	f.Buses = append(f.Buses, row)
}

func (f *Figures) addPublished(x *pair, row *Bus, groups map[groupKey]*Group) {
	slow, behind, stuck := make(map[string]int), make(map[string]uint64), make(map[string]float64) // by group
	earlier := byKey(x.before.Publications, func(p *inspect.Publication) string { return p.Address })
	for i := range x.now.Publications {
		p := &x.now.Publications[i]
		was := cmp.Or(earlier[p.Address], new(inspect.Publication))
		row.SentRate = row.SentRate.add(x.counted("messages_sent", p.Counters, was.Counters))
		f.Total.SentBytesRate = f.Total.SentBytesRate.add(x.counted("bytes_sent", p.Counters, was.Counters))
		repairs := x.counted("repairs_sent", p.Counters, was.Counters)
		f.Total.RepairsSent = f.Total.RepairsSent.add(repairs)
		g := x.groupAt(groups, p.Address)
		g.Publishers = append(g.Publishers, x.of.Bus)
		g.SentRate = g.SentRate.add(x.counted("packets_sent", p.Counters, was.Counters))
		g.RepairRate = g.RepairRate.add(repairs)
		g.NAKRate = g.NAKRate.add(x.counted("naks", p.Counters, was.Counters))
		if losses.PublicationState(p) == losses.SendsNothing {
			stuck[p.Address] = p.Stuck
		}
		for _, m := range p.Subscribers {
			s := Subscriber{
				Of: x.of, Subscriber: cmp.Or(m.Name, m.ID), ID: m.ID, Address: m.Address, Tag: m.Tag, Group: p.Address,
				Behind: m.Behind, Room: m.Room, State: cmp.Or(losses.SubscriberState(&m), stateOK),
				HeldFor: m.HeldFor, Heard: m.Heard,
			}
			behind[p.Address] = max(behind[p.Address], m.Behind)
			if s.slow() {
				slow[p.Address]++
			}
			g.Subscribers = append(g.Subscribers, s.Subscriber)
			f.Subscribers = append(f.Subscribers, s)
		}
	}
	gone := f.addGone(x)
	type key struct{ name, group string }
	was := make(map[key]uint64, len(x.before.Topics)) // there may be thousands
	for _, t := range x.before.Topics {
		was[key{t.Name, t.Group}] = t.Messages
	}
	for _, t := range x.now.Topics {
		f.Topics = append(f.Topics, Topic{
			Of: x.of, Topic: t.Name, Group: t.Group, Rate: x.rate(t.Messages, was[key{t.Name, t.Group}]), Messages: t.Messages,
			Subscribers: t.Subscribers, Slow: slow[t.Group], Gone: gone[t.Group], Stuck: stuck[t.Group], Behind: behind[t.Group],
		})
	}
}

// addGone adds the subscribers that the bus has given up lately. It returns how many they are, by group.
func (f *Figures) addGone(x *pair) map[string]int {
	gone := make(map[string]int)
	for _, e := range losses.GoneSubscribers(x.now, f.Time) {
		gone[e.Group]++
		f.Subscribers = append(f.Subscribers, Subscriber{
			Of: x.of, Subscriber: cmp.Or(e.Name, e.Address), ID: e.Subscriber, Address: e.Address, Group: e.Group,
			Behind: e.Behind, State: losses.Gone, Heard: max(0, f.Time.Sub(e.Time).Seconds()) + e.For,
		})
	}
	return gone
}

type groupKey struct{ address, iface string }

func (x *pair) groupAt(groups map[groupKey]*Group, address string) *Group {
	k := groupKey{address, strings.Join(x.now.Fabric.Interfaces, ", ")}
	if groups[k] == nil {
		groups[k] = &Group{Group: address, Interface: k.iface, SentRate: unknown, Received: unknown,
			RepairRate: unknown, NAKRate: unknown}
	}
	return groups[k]
}

type streamKey struct {
	publisher string
	epoch     events.ID
	group     string
}

// lagsOf is how far the subscription is behind that is furthest behind, by publisher.
func lagsOf(b *inspect.Bus) map[streamKey]int {
	all := make(map[streamKey]int)
	for i := range b.Subscriptions {
		for _, p := range b.Subscriptions[i].Publishers {
			k := streamKey{p.Publisher, p.Epoch, p.Group}
			all[k] = max(all[k], p.Lag)
		}
	}
	return all
}

func (f *Figures) undetectedOf(of *Of, publishes bool) *losses.Undetected {
	return f.undetectedAt[undetectedKey{of.key.BusKey, publishes}]
}

type undetectedKey struct {
	losses.BusKey
	publishes bool
}

func (f *Figures) addReceived(x *pair, row *Bus, groups map[groupKey]*Group) {
	earlier := byKey(x.before.Groups, func(g *inspect.Group) string { return g.Address })
	lags := lagsOf(x.now)
	for i := range x.now.Groups {
		g := &x.now.Groups[i]
		was := cmp.Or(earlier[g.Address], new(inspect.Group))
		streams := byKey(was.Streams, func(s *inspect.Stream) streamKey { return streamKey{s.Publisher, s.Epoch, g.Address} })
		rate := x.counted("packets", g.Counters, was.Counters)
		row.ReceivedRate = row.ReceivedRate.add(rate)
		f.Total.ReceivedBytes = f.Total.ReceivedBytes.add(x.counted("bytes", g.Counters, was.Counters))
		f.Total.RepairRate = f.Total.RepairRate.add(x.counted("repaired", g.Counters, was.Counters))
		f.Total.MissingRate = f.Total.MissingRate.add(x.counted("missing", g.Counters, was.Counters))
		row.Add(losses.Repairs{Missing: g.Counters["missing"], Repaired: g.Counters["repaired"], Late: g.Counters["late"], Lost: g.Counters["lost"]})
		m := x.groupAt(groups, g.Address)
		m.Received = m.Received.larger(rate)
		switch {
		case g.Joined:
			m.Subscribers = append(m.Subscribers, cmp.Or(x.now.ShownAs, x.of.Bus))
		case g.Topics > 0:
			m.Unjoined++
		}
		for _, st := range g.Streams {
			k := streamKey{st.Publisher, st.Epoch, g.Address}
			old := cmp.Or(streams[k], new(inspect.Stream))
			s := Stream{
				Of: x.of, Publisher: cmp.Or(st.Name, st.Publisher), ID: st.Publisher, Epoch: st.Epoch, Group: g.Address,
				Rate: x.rate(st.Packets, old.Packets), RepairRate: x.rate(st.Repaired, old.Repaired),
				Packets: st.Packets, Repaired: st.Repaired, Missing: st.Missing, Lost: st.Lost, Lag: lags[k], LostFor: st.LostFor,
			}
			if s.LostFor == 0 {
				m.Publishers = append(m.Publishers, s.Publisher)
			}
			f.Streams = append(f.Streams, s)
		}
	}
}

func (f *Figures) addSubscriptions(x *pair, row *Bus) {
	losing := make(map[string]bool) // names of subscriptions that lost messages within the last minute
	for _, l := range losses.LostLately(x.now, f.Time) {
		losing[l.Subscription] = true
	}
	for i := range x.now.Subscriptions {
		s := &x.now.Subscriptions[i]
		was := cmp.Or(first(x.before.Subscriptions, func(y *inspect.Subscription) bool { return y.Number == s.Number }),
			new(inspect.Subscription))
		r := Subscription{
			Of: x.of, Number: s.Number, Topics: s.Topics, Policy: s.Policy, Handler: s.Handler,
			Rate: x.rate(s.Messages, was.Messages), Messages: s.Messages,
			Pending: s.Pending, Causes: s.Lost, Ended: s.Ended, seen: s,
		}
		for _, c := range s.Lost {
			r.Lost += c.Messages
			r.Gaps += c.Gaps
		}
		for _, p := range s.Publishers {
			r.Unread = max(r.Unread, p.Unread)
		}
		r.hearing = losses.HearingOf(x.now, s)
		r.Peers, r.State = r.hearing.Peers, subscriptionState(s, &r, losing)
		if of := r.hearing.Of; of != nil {
			r.LostFor = of.LostFor
		}
		row.DeliveredRate = row.DeliveredRate.add(r.Rate)
		f.Subscriptions = append(f.Subscriptions, r)
	}
}

func subscriptionState(s *inspect.Subscription, r *Subscription, losing map[string]bool) string {
	state, _ := losses.SubscriptionState(s)
	switch {
	case state == losses.Ended || state == losses.Unread:
		return state
	case r.hearing.State == losses.PublisherLost: // before what it lost by that
		return r.hearing.State
	case state != "":
		return state
	case r.Gaps > 0 && losing[losses.SubscriptionName(s)]:
		return stateLosing
	case r.Gaps > 0 && r.hearing.State == "":
		return stateLost
	}
	return cmp.Or(r.hearing.State, stateOK)
}

func (f *Figures) addLosses(x *pair, row *Bus) {
	for _, c := range x.now.Causes {
		before := first(x.before.Causes, func(y *stats.CauseCount) bool { return y.Cause == c.Cause })
		was := cmp.Or(before, new(stats.CauseCount))
		l := Loss{Of: x.of, CauseCount: c, Rate: x.rate(c.Dropped, was.Dropped),
			Do: losses.DoAt(c.Cause, x.now, x.of.Process, f.Host.ReceiveBufferMax)}
		if c.Cause == "socket_overflow" {
			row.SocketDrops, row.DropRate = c.Dropped, l.Rate
		}
		row.LostMessages += c.Messages
		f.Total.LostMessages = inspect.Plus(f.Total.LostMessages, c.Messages)
		f.Total.Gaps = inspect.Plus(f.Total.Gaps, c.Gaps)
		f.Losses = append(f.Losses, l)
	}
}

func unique(names []string) []string {
	slices.Sort(names)
	if names = slices.Compact(names); names == nil {
		return []string{}
	}
	return names
}

// busKey is what a bus keeps as long as it lives.
type busKey struct {
	losses.BusKey
	since int64
}

func keyOf(p *inspect.Process, b *inspect.Bus) busKey {
	return busKey{losses.KeyOf(p, b), b.Since.UnixNano()}
}

// byKey are the elements of a list, of which there may be thousands.
func byKey[T any, K comparable](list []T, key func(*T) K) map[K]*T {
	all := make(map[K]*T, len(list))
	for i := range list {
		if k := key(&list[i]); all[k] == nil {
			all[k] = &list[i]
		}
	}
	return all
}

func first[T any](list []T, match func(*T) bool) *T {
	for i := range list {
		if match(&list[i]) {
			return &list[i]
		}
	}
	return nil
}

func best[T any](list []T, match func(*T) bool, before func(a, b *T) bool) (best *T) {
	for i := range list {
		if x := &list[i]; match(x) && (best == nil || before(x, best)) {
			best = x
		}
	}
	return best
}
