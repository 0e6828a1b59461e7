package cli

import (
	"strings"
	"sync"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

type jsonStall struct {
	Type       string   `json:"type"`
	Event      string   `json:"event"`                // of pub: "stalled", "resumed", "released", "slow", "silent", "back", "alone", "again"; of sub: "not_read", "holds_up", "released"; both: "stood_still"
	Subscriber string   `json:"subscriber,omitempty"` // of pub
	Name       string   `json:"name,omitempty"`
	Address    string   `json:"address,omitempty"`
	Publisher  string   `json:"publisher,omitempty"` // of sub
	Topics     []string `json:"topics,omitempty"`
	Seconds    float64  `json:"seconds"`
	Behind     uint64   `json:"behind_packets"`
	Reason     string   `json:"reason,omitempty"` // of "stalled", "released" and "silent": that it does not answer, or what cut off this process
}

var stallWords = map[events.Kind]string{
	events.PublisherStalled: "stalled", events.PublisherResumed: "resumed", events.SubscriberReleased: "released", events.SlowSubscriber: "slow", events.SubscriberSilent: "silent",
	events.StoodStill: "stood_still", events.SubscriptionNotRead: "not_read", events.HoldsPublishersUp: "holds_up", events.ReleasedByPublisher: "released",
}

// asStall returns an event as JSON, or nil if word is empty.
func asStall(word string, e events.Event) *jsonStall {
	if word == "" {
		return nil
	}
	j := &jsonStall{Type: "stall", Event: word, Topics: e.Topics, Seconds: e.For.Seconds(), Behind: e.Behind, Reason: plain(e.Err)}
	switch {
	case e.Kind == events.StoodStill:
	case e.Subscriber != 0:
		j.Subscriber, j.Name, j.Address = e.Subscriber.String(), e.Name, e.Address
	default:
		j.Publisher = e.Publisher.String()
	}
	return j
}

// stallLine is the text for an event, or empty for other events.
func stallLine(e events.Event) string {
	name, d, packets := subscriberText(e), e.For.Round(10*time.Millisecond).String(), count(e.Behind, "packet")
	topics := strings.Join(e.Topics, ", ")
	switch e.Kind {
	case events.SubscriberSilent:
		if e.Err != nil {
			return name + " stopped answering, silent for " + d + " and " + packets + " behind: pub no longer waits for it: " + e.Err.Error()
		}
		return name + " stopped answering, silent for " + d + " and " + packets + " behind: pub no longer waits for it (-silence)"
	case events.PublisherStalled:
		if e.Err != nil {
			return "blocked for " + d + " by " + name + ", which is " + packets + " behind: " + e.Err.Error()
		}
		return "blocked for " + d + " by " + name + ", which reads nothing and is " + packets + " behind"
	case events.PublisherResumed:
		return "continuing after " + d
	case events.SubscriberReleased:
		return name + " was released after " + d + ", " + packets + " behind: pub does not wait for it until it has caught up (-stall-limit)"
	case events.SlowSubscriber:
		return name + " was too far behind for " + d + ", now by " + packets + ": pub does not wait for it until it has caught up (-slow-behind)"
	case events.StoodStill:
		return "this process did not run for " + d + ": it was stopped, or got no processor time"
	case events.SubscriptionNotRead:
		return "messages on " + topics + " have not been read for " + d + ", and the buffer is full: publishers wait, unless they have released this process"
	case events.HoldsPublishersUp:
		if len(e.Topics) == 0 {
			return publisherText(e) + " has waited for this process for " + d + ": its packets do not arrive here"
		}
		return "this process has blocked " + publisherText(e) + " for " + d + ": " + packets + " of " + topics + " are not read"
	case events.ReleasedByPublisher:
		return publisherText(e) + " no longer waits for this process, because it blocked the publisher or stayed far behind for " + d + ": there may be a gap"
	}
	return ""
}

func publisherText(e events.Event) string {
	return "publisher " + events.PeerText(e.Publisher, e.Name, e.Address)
}

func subscriberText(e events.Event) string {
	return "subscriber " + events.PeerText(e.Subscriber, e.Name, e.Address)
}

// stallQueue passes events from the bus's goroutine to the goroutine that writes JSON.
type stallQueue struct {
	mu  sync.Mutex
	all []*jsonStall // guarded by mu
}

func (q *stallQueue) put(j *jsonStall) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.all = append(q.all, j)
}

func (q *stallQueue) write(to *jsonLines) error {
	q.mu.Lock()
	all := q.all
	q.all = nil
	q.mu.Unlock()
	for _, j := range all {
		if err := to.write(j); err != nil {
			return err
		}
	}
	return nil
}
