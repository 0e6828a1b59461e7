package losses

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fanfaremq/fanfare/internal/inspect"
)

// Classification of slow subscribers and permanent losses, shared by top, web and loss.

// States of subscribers and subscriptions. Empty: no problem.
const (
	Released = "released" // publishers no longer wait for it
	Holds    = "holds"    // it blocks a publisher now
	Silent   = "silent"   // it has sent nothing for longer than it should
	Gone     = "gone"     // it was silent for so long that it was recently given up
	Behind   = "behind"   // it has read so little that it will block a publisher or be skipped
	Unread   = "unread"   // a subscription that blocks a publisher and is not read
	Ended    = "ended"    // a subscription that has ended
)

const (
	silentAfter = 3.0 // seconds: a subscriber sends something once a second
	// unansweredAfter is in seconds: a subscriber is asked ten times a second, answers immediately,
	// and is given up after 1 s unless Config.Silence is set.
	unansweredAfter = 0.3
	unreadAfter     = 1.0 // seconds
	// A slow subscriber has at least behindAtLeast packets unread, and the share behindPart/behindOf of its
	// window: a reader that is constantly too slow always has that many, although it never stops for long.
	behindAtLeast        = 256
	behindPart, behindOf = 3, 4
	lostLately           = time.Minute // how long a permanent loss counts as recent
)

// farBehind reports whether a subscriber that is behind by so many packets, in a window of that size, counts as slow.
func farBehind(behind, window uint64) bool {
	return behind >= behindAtLeast && behind*behindOf >= window*behindPart
}

func SubscriberState(m *inspect.Subscriber) string {
	switch {
	case m.Released:
		return Released
	case m.Unanswered > unansweredAfter: // it does not block by slow reading
		return Silent
	case m.Holds:
		return Holds
	case m.Heard > silentAfter:
		return Silent
	case farBehind(m.Behind, m.Behind+m.Room):
		return Behind
	}
	return ""
}

// SubscriptionState returns the state of a subscription, and the publisher that it is furthest behind, if any.
func SubscriptionState(s *inspect.Subscription) (state string, of *inspect.SubscriptionFeed) {
	if s.Ended != "" {
		return Ended, nil
	}
	for i := range s.Publishers {
		p := &s.Publishers[i]
		switch {
		case p.Unread > unreadAfter && (state != Unread || p.Unread > of.Unread):
			state, of = Unread, p
		case state != Unread && farBehind(uint64(p.Lag), uint64(p.Window)) && (of == nil || p.Lag > of.Lag):
			state, of = Behind, p
		}
	}
	return state, of
}

// LostLately returns a bus's permanent losses of the last minute by its host's clock, most messages first.
func LostLately(b *inspect.Bus, now time.Time) (lost []inspect.Loss) {
	if b.Losses == nil {
		return nil
	}
	for _, x := range b.Losses.Losses {
		if !x.Event && now.Sub(x.Last) < lostLately {
			lost = append(lost, x)
		}
	}
	for _, x := range b.Losses.Older {
		if _, isCause := Causes()[x.Cause]; isCause && now.Sub(x.Last) < lostLately {
			lost = append(lost, inspect.Loss{First: x.First, Last: x.Last, Cause: x.Cause, Times: x.Times, Messages: x.Messages})
		}
	}
	slices.SortStableFunc(lost, func(a, b inspect.Loss) int { return cmp.Compare(b.Messages, a.Messages) })
	return lost
}

// SubscriptionName is the name of a subscription in loss records: the first of its topics.
func SubscriptionName(s *inspect.Subscription) string {
	if len(s.Topics)+s.TopicsLeftOut > topicsListed {
		return strings.Join(s.Topics[:min(len(s.Topics), topicsListed)], " ") + " and more"
	}
	return strings.Join(s.Topics, " ")
}

// ByReading reports whether the cause is the reader of a subscription, not the network.
func ByReading(cause string) bool {
	return slices.Contains([]string{"slow_consumer", "overrun", "released"}, cause)
}

// notRead describes how much a subscription has not read. If it is more than the window, its publisher has not waited.
func notRead(state string, of *inspect.SubscriptionFeed) string {
	packets := plural(of.Lag, "packet", "packets")
	if of.Window > 0 && of.Lag > of.Window {
		return fmt.Sprintf("This subscription is %s: %s are unread, more than the %d of its window. Its publisher has continued, and there will be a gap.", state, packets, of.Window)
	}
	return fmt.Sprintf("This subscription is %s: %s of a window of %d are unread, and its publisher waits or skips it.", state, packets, of.Window)
}

// slow adds hints about slow subscribers of this host, and about remote ones as publishers here detect them.
func (r *Report) slow(seen []inspect.Seen) {
	for p, b := range Buses(seen) {
		hint := Finding{Kind: Hint, Cause: "slow_reader", First: r.To, Last: r.To, Process: p.Name(), Bus: cmp.Or(b.Name, b.ID)}
		for j := range b.Subscriptions {
			s := &b.Subscriptions[j]
			state, of := SubscriptionState(s)
			if of == nil {
				continue
			}
			f := hint
			f.Subscription, f.Publisher, f.Behind = SubscriptionName(s), cmp.Or(of.Name, of.Publisher), uint64(of.Lag)
			f.Why = notRead(state, of)
			f.Do = "Make the reader of " + f.Subscription + " in " + f.Process + " faster, or choose another policy for it (option SlowConsumer, sub -slow)."
			r.Findings = append(r.Findings, f)
		}
		for j := range b.Publications {
			for k := range b.Publications[j].Subscribers {
				m := &b.Publications[j].Subscribers[k]
				if state := SubscriberState(m); b.Publications[j].Stuck == 0 && (state == Holds || state == Behind) {
					f := hint
					f.Subscriber, f.Group, f.Behind = peerText(m.Name, m.ID, m.Address), b.Publications[j].Address, m.Behind
					f.Why = fmt.Sprintf("This subscriber is %s behind and has room for %d more: publishers of the group wait for it.", plural(m.Behind, "packet", "packets"), m.Room)
					f.Do = "Find out why " + f.Subscriber + " does not read: fanfare loss and top on its host show the subscription."
					if m.Unreached {
						f.Cause, f.Do = "unreached", "Find out why packets do not reach "+f.Subscriber+", which answers: fanfare loss there; if only full ones are missing, MTUs differ (fanfare doctor -peer)."
					}
					r.Findings = append(r.Findings, f)
				}
			}
		}
	}
}

const goneRetention = time.Minute

// GoneSubscribers returns the subscribers that the bus's publishers gave up recently because they
// were silent, from the events of the bus, except those that returned. There is one for each group
// and name, the latest last. now is by the clock of the host (Clock).
func GoneSubscribers(b *inspect.Bus, now time.Time) (gone []inspect.Event) {
	type member struct{ group, name string }
	at := make(map[member]int)
	for _, e := range b.Events {
		k := member{e.Group, e.Name}
		i, had := at[k]
		switch {
		case e.Kind == "subscriber_up" && had:
			gone[i].Kind = "" // it has returned
			delete(at, k)
		case e.Kind == "subscriber_silent" && now.Sub(e.Time) < goneRetention:
			if had {
				gone[i].Kind = ""
			}
			at[k], gone = len(gone), append(gone, e)
		}
	}
	return slices.DeleteFunc(gone, func(e inspect.Event) bool { return e.Kind == "" })
}

const SendsNothing = "sends nothing" // state of a publication that has not been able to send for stuckAfter

const stuckAfter = 1.0 // seconds: when a bus reports it itself

func PublicationState(p *inspect.Publication) string {
	if p.Stuck >= stuckAfter {
		return SendsNothing
	}
	return ""
}

// States of a subscription that does not receive from all of its publishers.
const (
	PublisherLost = "publisher lost" // a publisher that it received from fell silent before its end
	NoPublisher   = "no publisher"   // it receives from no publisher
)

type Hearing struct {
	Peers int    // publishers present
	State string // PublisherLost or NoPublisher; empty: it receives from all publishers that it has received from
	// Of is the publisher lost last. It remains until the publisher, or another instance of it, is received again.
	Of *inspect.SubscriptionFeed
	// Why is the latest event about publishers that the bus cannot receive from; empty: there may be no publisher.
	Why string
}

func HearingOf(b *inspect.Bus, s *inspect.Subscription) (h Hearing) {
	up := make(map[string]bool) // ids, because a restarted publisher counts as present
	for i := range s.Publishers {
		if p := &s.Publishers[i]; p.Relevant && p.LostFor == 0 {
			h.Peers++
			up[p.Publisher] = true
		}
	}
	for i := range s.Publishers {
		if p := &s.Publishers[i]; p.Relevant && p.LostFor > 0 && !up[p.Publisher] &&
			!Replaced(p.Name, p.LostFor, h.Peers > 0) && (h.Of == nil || p.LostFor < h.Of.LostFor) {
			h.Of = p
		}
	}
	switch {
	case b.Incomplete != "" || s.Ended != "" || len(s.Publishers) >= inspect.MaxFeeds && h.Peers == 0: // not all publishers are listed
		h.Of = nil
	case h.Of != nil:
		h.State = PublisherLost
	case h.Peers == 0:
		h.State, h.Why = NoPublisher, whyUndetected(b)
	}
	return h
}

// Replaced reports whether a lost publisher counts as replaced by another: a publisher without a name has a new id
// after a restart, and would otherwise stay missing forever. Without other publishers it counts as missing.
func Replaced(name string, lostFor float64, others bool) bool {
	return name == "" && others && lostFor >= lostLately.Seconds()
}

// Silenced reports whether the subscription receives from no publisher, or has lost one within the last minute.
func (h *Hearing) Silenced() bool {
	return h.State == PublisherLost && (h.Peers == 0 || h.Of.LostFor < lostLately.Seconds())
}

func (h *Hearing) Text(s *inspect.Subscription) string {
	switch {
	case h.Of != nil:
		text := fmt.Sprintf("publisher %s of %s was lost %s ago", cmp.Or(h.Of.Name, h.Of.Publisher), SubscriptionName(s), span(seconds(h.Of.LostFor)))
		if h.Peers == 0 {
			text += ", and no other is detected"
		}
		return text
	case h.Why != "":
		return fmt.Sprintf("no publisher of %s is detected; %s", SubscriptionName(s), h.Why)
	}
	return ""
}

// undetectedEvents are the events that explain why packets of a publisher are not received.
var undetectedEvents = []string{"packets_unreadable", "config_mismatch", "publisher_refused", "publisher_fault", "topic_collision", "bad_packets", "group_failed"}

// whyUndetected is the text of the latest such event, or its kind if the text is no longer known.
func whyUndetected(b *inspect.Bus) string {
	for _, e := range slices.Backward(b.Events) {
		if slices.Contains(undetectedEvents, e.Kind) {
			return e.Text
		}
	}
	for _, kind := range undetectedEvents {
		if b.EventCounts[kind] > 0 {
			return strings.ReplaceAll(kind, "_", " ")
		}
	}
	return ""
}
