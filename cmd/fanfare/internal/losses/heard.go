package losses

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/fanfaremq/fanfare/internal/inspect"
)

// Whom a subscription hears: decided here for top and web alike.

// States of a subscription that does not hear all whom it should.
const (
	PublisherLost = "publisher lost" // one that it has heard fell silent before its end
	NoPublisher   = "no publisher"   // it hears none
)

type Hearing struct {
	Peers int    // publishers that are there
	State string // PublisherLost or NoPublisher; empty: it hears all whom it has heard
	// Of is the publisher that was lost last. It may come back, so that it stays until it does, or
	// another instance of it is heard.
	Of *inspect.SubscriptionFeed
	// Why is what the bus has told of publishers that it cannot hear, last; empty: nothing, there may
	// be none.
	Why string
}

// HearingOf is how a subscription of a bus does with its publishers, as far as the bus has said.
func HearingOf(b *inspect.Bus, s *inspect.Subscription) (h Hearing) {
	up := make(map[string]bool) // ids: a publisher that was restarted is there
	for i := range s.Publishers {
		if p := &s.Publishers[i]; p.Relevant && p.LostFor == 0 {
			h.Peers++
			up[p.Publisher] = true
		}
	}
	for i := range s.Publishers {
		if p := &s.Publishers[i]; p.Relevant && p.LostFor > 0 && !up[p.Publisher] && !Replaced(p.Name, p.LostFor, h.Peers > 0) && (h.Of == nil || p.LostFor < h.Of.LostFor) {
			h.Of = p
		}
	}
	switch {
	case b.Incomplete != "" || s.Ended != "" || len(s.Publishers) >= inspect.MaxFeeds && h.Peers == 0: // others may not be listed
		h.Of = nil
	case h.Of != nil:
		h.State = PublisherLost
	case h.Peers == 0:
		h.State, h.Why = NoPublisher, whyUnheard(b)
	}
	return h
}

// Replaced reports whether a lost publisher is taken for one that another has replaced: without a name
// it has another id when it is started again, and would be missed for ever. Where it has no others beside
// it, it is missed.
func Replaced(name string, lostFor float64, others bool) bool {
	return name == "" && others && lostFor >= lostLately.Seconds()
}

// Silenced reports whether the subscription hears nobody any more, or has lost a publisher within
// the last minute: that is to be looked at at once. Where others go on it is told in its row.
func (h *Hearing) Silenced() bool {
	return h.State == PublisherLost && (h.Peers == 0 || h.Of.LostFor < lostLately.Seconds())
}

// Text says what a subscription lacks; empty: nothing that is known.
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

// unheardEvents are those that say why somebody who publishes is not heard.
var unheardEvents = []string{"packets_unreadable", "config_mismatch", "publisher_refused", "publisher_fault", "topic_collision", "bad_packets", "group_failed"}

// whyUnheard is the text of the last such event, or its kind where the text is not remembered.
func whyUnheard(b *inspect.Bus) string {
	for _, e := range slices.Backward(b.Events) {
		if slices.Contains(unheardEvents, e.Kind) {
			return e.Text
		}
	}
	for _, kind := range unheardEvents {
		if b.EventCounts[kind] > 0 {
			return strings.ReplaceAll(kind, "_", " ")
		}
	}
	return ""
}
