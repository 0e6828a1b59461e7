package losses

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fanfaremq/fanfare/internal/inspect"
)

// Which subscribers are slow, and which lose messages permanently: decided here for top, web and loss alike.

// States of subscribers and subscriptions. Empty: nothing is the matter.
const (
	Released = "released" // it is not waited for any more
	Holds    = "holds"    // it holds a publisher up just now
	Silent   = "silent"   // it has said nothing for longer than it should
	Gone     = "gone"     // it was silent for so long that it was given up, lately
	Behind   = "behind"   // it has read so little that it will hold a publisher up, or be passed over
	Unread   = "unread"   // a subscription that holds a publisher up and is not read
	Ended    = "ended"    // a subscription that was ended
)

const (
	silentAfter = 3.0 // seconds: a subscriber says something once a second
	// unansweredAfter is how many seconds it may be asked for a sign of life: it is asked ten times a
	// second, answers at once, and is given up after one unless Config.Silence says otherwise.
	unansweredAfter = 0.3
	unreadAfter     = 1.0 // seconds
	// Packets that a slow subscriber has not read, and the part of its window that they are at
	// least: a reader that is steadily too slow is never still for long, but always there.
	behindAtLeast        = 256
	behindPart, behindOf = 3, 4
	lostLately           = time.Minute // how long a permanent loss counts as recent
)

// farBehind reports whether so many packets of a window that has room for so many are too many.
func farBehind(behind, window uint64) bool {
	return behind >= behindAtLeast && behind*behindOf >= window*behindPart
}

func SubscriberState(m *inspect.Subscriber) string {
	switch {
	case m.Released:
		return Released
	case m.Unanswered > unansweredAfter: // it holds nothing up by reading slowly
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

// SubscriptionState says how a subscription does, and with which publisher it is worst, if any.
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

// LostLately are a bus's permanent losses within the last minute by its host's clock, the most messages first.
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

// SubscriptionName is what records of losses call a subscription: by the first of its topics.
func SubscriptionName(s *inspect.Subscription) string {
	if len(s.Topics)+s.TopicsLeftOut > topicsListed {
		return strings.Join(s.Topics[:min(len(s.Topics), topicsListed)], " ") + " and more"
	}
	return strings.Join(s.Topics, " ")
}

// ByReading reports whether the reader of a subscription lost it, and not the network.
func ByReading(cause string) bool {
	return slices.Contains([]string{"slow_consumer", "overrun", "released"}, cause)
}

// notRead says how much a subscription has not read. What is more than its window its publisher has not waited for.
func notRead(state string, of *inspect.SubscriptionFeed) string {
	packets := plural(of.Lag, "packet", "packets")
	if of.Window > 0 && of.Lag > of.Window {
		return fmt.Sprintf("This subscription is %s: %s are not read, more than the %d of its window: its publisher has gone on, and it will have a gap.", state, packets, of.Window)
	}
	return fmt.Sprintf("This subscription is %s: %s of a window of %d are not read, and its publisher waits, or passes it over.", state, packets, of.Window)
}

// slow adds hints about subscribers that read too slowly: here, and elsewhere as publishers here see it.
// Their losses, and those that were released, are in the records.
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
				if state := SubscriberState(m); state == Holds || state == Behind {
					f := hint
					f.Subscriber, f.Group, f.Behind = peerText(m.Name, m.ID, m.Address), b.Publications[j].Address, m.Behind
					f.Why = fmt.Sprintf("This subscriber is %s behind and has room for %d more: publishers of the group wait for it.", plural(m.Behind, "packet", "packets"), m.Room)
					f.Do = "See what keeps " + f.Subscriber + " from reading: fanfare loss and top on its host name the subscription."
					r.Findings = append(r.Findings, f)
				}
			}
		}
	}
}

const goneShown = time.Minute

// GoneSubscribers are the subscribers of a bus's publishers that it has given up lately, because they fell
// silent, by its events; without those that are back. They are by group and name, the latest last.
// Now is by the clock of its host (Clock).
func GoneSubscribers(b *inspect.Bus, now time.Time) (gone []inspect.Event) {
	type member struct{ group, name string }
	at := make(map[member]int)
	for _, e := range b.Events {
		k := member{e.Group, e.Name}
		i, had := at[k]
		switch {
		case e.Kind == "subscriber_up" && had:
			gone[i].Kind = "" // it is back
			delete(at, k)
		case e.Kind == "subscriber_silent" && now.Sub(e.Time) < goneShown:
			if had {
				gone[i].Kind = ""
			}
			at[k], gone = len(gone), append(gone, e)
		}
	}
	return slices.DeleteFunc(gone, func(e inspect.Event) bool { return e.Kind == "" })
}

const SendsNothing = "sends nothing" // the state of a publication of which nothing could be sent for stuckAfter

const stuckAfter = 1.0 // seconds: when a bus says so itself

func PublicationState(p *inspect.Publication) string {
	if p.Stuck >= stuckAfter {
		return SendsNothing
	}
	return ""
}

// States of a subscription that does not receive from all its publishers.
const (
	PublisherLost = "publisher lost" // one that it has heard fell silent before its end
	NoPublisher   = "no publisher"   // it hears none
)

type Hearing struct {
	Peers int    // publishers that are there
	State string // PublisherLost or NoPublisher; empty: it receives from all that it has received from
	// Of is the publisher that was lost last. It may come back, so that it stays until it does, or
	// another instance of it is heard.
	Of *inspect.SubscriptionFeed
	// Why is the latest event of the bus on publishers that it cannot receive from; empty: none, there may be no
	// publisher.
	Why string
}

func HearingOf(b *inspect.Bus, s *inspect.Subscription) (h Hearing) {
	up := make(map[string]bool) // ids: a publisher that was restarted is there
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
	case b.Incomplete != "" || s.Ended != "" || len(s.Publishers) >= inspect.MaxFeeds && h.Peers == 0: // others may not be listed
		h.Of = nil
	case h.Of != nil:
		h.State = PublisherLost
	case h.Peers == 0:
		h.State, h.Why = NoPublisher, whyUndetected(b)
	}
	return h
}

// Replaced reports whether a lost publisher is taken for one that another has replaced: without a name it has another
// id when it is started again, and would be missed for ever. Where it has no others beside it, it is missed.
func Replaced(name string, lostFor float64, others bool) bool {
	return name == "" && others && lostFor >= lostLately.Seconds()
}

// Silenced reports whether the subscription hears no publisher any more, or has lost one within the last minute.
func (h *Hearing) Silenced() bool {
	return h.State == PublisherLost && (h.Peers == 0 || h.Of.LostFor < lostLately.Seconds())
}

func (h *Hearing) Text(s *inspect.Subscription) string {
	switch {
	case h.Of != nil:
		text := fmt.Sprintf("publisher %s of %s was lost %s ago", cmp.Or(h.Of.Name, h.Of.Publisher), SubscriptionName(s), span(seconds(h.Of.LostFor)))
		if h.Peers == 0 {
			text += ", and no other is heard"
		}
		return text
	case h.Why != "":
		return fmt.Sprintf("no publisher of %s is heard; %s", SubscriptionName(s), h.Why)
	}
	return ""
}

// undetectedEvents are those that say why packets of a publisher are not received.
var undetectedEvents = []string{"packets_unreadable", "config_mismatch", "publisher_refused", "publisher_fault", "topic_collision", "bad_packets", "group_failed"}

// whyUndetected is the text of the last such event, or its kind where the text is not remembered.
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
