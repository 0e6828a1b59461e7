package losses

import (
	"fmt"
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// News finds new losses in successive answers of processes.
type News struct {
	buses map[BusKey]*known
	hints map[hintKey]time.Time // hints shown, and when they were last present
}

type hintKey struct{ process, bus, cause, peer string }

const hintAgain = time.Minute // a hint that was absent for this long is shown again

// maxHints bounds the hints shown. Twice as many are remembered: a process may invent new ones with each answer.
const maxHints = 4096

type BusKey struct {
	PID   int
	ID    string
	Epoch events.ID
}

func KeyOf(p *inspect.Process, b *inspect.Bus) BusKey { return BusKey{p.PID, b.ID, b.Epoch} }

type known struct {
	losses map[placeKey]inspect.Loss
	counts map[causeKey]uint64 // packets
	socket string              // the socket that it was read from
}

type placeKey struct {
	first                                         time.Time
	event                                         bool
	cause, topic, subscription, publisher, member string
}

type causeKey struct {
	minute time.Time
	cause  string
}

func NewNews(seen []inspect.Seen, now time.Time) *News {
	n := &News{buses: make(map[BusKey]*known)}
	n.Take(seen, now)
	return n
}

// Take returns the losses since the last call. For a bus that is new it returns its whole record.
func (n *News) Take(seen []inspect.Seen, now time.Time) []Finding {
	var fresh []inspect.Seen
	buses, deaf := make(map[BusKey]*known), make(map[string]bool)
	for _, s := range seen {
		if s.Err != nil {
			deaf[s.Socket] = true
			continue
		}
		p := *s.Snapshot
		p.Buses = nil
		for _, b := range s.Snapshot.Buses {
			if b.Losses == nil {
				continue
			}
			k := KeyOf(&p.Process, &b)
			was := n.buses[k]
			buses[k] = knownOf(b.Losses, s.Socket)
			b.Losses = was.news(b.Losses)
			p.Buses = append(p.Buses, b)
		}
		fresh = append(fresh, inspect.Seen{Socket: s.Socket, Snapshot: &p})
	}
	for k, v := range n.buses { // keep what is known of processes that did not answer
		if buses[k] == nil && deaf[v.socket] {
			buses[k] = v
		}
	}
	n.buses = buses
	return n.fresh(Make(fresh, time.Time{}, now).Findings, now)
}

// fresh removes hints that were present recently, and those that cannot be remembered.
func (n *News) fresh(found []Finding, now time.Time) []Finding {
	hints := make(map[hintKey]time.Time)
	hint := func(f *Finding) (k hintKey, ok bool) {
		return hintKey{f.Process, f.Bus, f.Cause, f.Subscriber + f.Subscription}, f.Kind == Hint
	}
	for i := range found {
		if k, ok := hint(&found[i]); ok && len(hints) < maxHints {
			hints[k] = now
		}
	}
	found = slices.DeleteFunc(found, func(f Finding) bool {
		k, ok := hint(&f)
		_, had := n.hints[k]
		_, room := hints[k]
		return ok && (had || !room)
	})
	for k, at := range n.hints {
		if _, ok := hints[k]; !ok && now.Sub(at) < hintAgain && len(hints) < 2*maxHints {
			hints[k] = at
		}
	}
	n.hints = hints
	return found
}

func knownOf(r *inspect.LossRecord, socket string) *known {
	k := &known{make(map[placeKey]inspect.Loss), make(map[causeKey]uint64), socket}
	for _, x := range r.Losses {
		k.losses[placeOf(&x)] = x
	}
	for _, m := range r.Minutes {
		for _, c := range m.Causes {
			k.counts[causeKey{m.Start, c.Cause}] += c.Dropped
		}
	}
	return k
}

func placeOf(x *inspect.Loss) placeKey {
	return placeKey{x.First, x.Event, x.Cause, x.Topic, x.Subscription, fmt.Sprint(x.Publisher, x.Epoch, x.Group, x.Leg),
		x.Subscriber}
}

func (k *known) news(r *inspect.LossRecord) *inspect.LossRecord {
	if k == nil {
		k = new(known)
	}
	out := &inspect.LossRecord{From: r.From, To: r.To}
	for _, x := range r.Losses {
		old := k.losses[placeOf(&x)]
		if x.Times <= old.Times {
			continue
		}
		if old.Times > 0 {
			x.First = x.Last
		}
		x.Times, x.Messages, x.Unknown = x.Times-old.Times, x.Messages-min(x.Messages, old.Messages),
			x.Unknown-min(x.Unknown, old.Unknown)
		out.Losses = append(out.Losses, x)
	}
	for _, m := range r.Minutes {
		more := m
		more.Causes = nil
		for _, c := range m.Causes {
			if old := k.counts[causeKey{m.Start, c.Cause}]; c.Dropped > old {
				c.Dropped -= old
				more.Causes = append(more.Causes, c)
			}
		}
		if len(more.Causes) > 0 {
			out.Minutes = append(out.Minutes, more)
		}
	}
	return out
}

func (f *Finding) Line() string {
	when := f.Last.Local().Format("15:04:05")
	if f.Kind == Dropped {
		when = f.First.Local().Format("15:04") + "   "
	}
	s := fmt.Sprintf("%s %-7s %s%s", when, f.Kind, f.Cause, f.Title())
	if f.Publisher != "" {
		s += " from " + f.Publisher
	}
	if f.Subscriber != "" {
		s += ": " + f.Subscriber
	}
	s += ", in " + f.Process
	if f.Subscription != "" {
		s += " (" + f.Subscription + ")"
	}
	return s + ": " + f.Do
}
