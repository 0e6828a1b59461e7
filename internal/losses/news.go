package losses

import (
	"fmt"
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/internal/inspect"
)

// News finds what is new in what processes say now and then.
type News struct {
	buses map[busKey]*known
	hints map[hintKey]time.Time // that were told, and when they were there last
}

// hintKey names a hint.
type hintKey struct{ process, bus, cause, who string }

// hintAgain is how long a hint must have been away to be news again: readers that are too slow
// come and go.
const hintAgain = time.Minute

// busKey names a bus of a process.
type busKey struct {
	pid   int
	id    string
	epoch uint64
}

// known is what a bus has told.
type known struct {
	losses map[placeKey]inspect.Loss
	counts map[causeKey]uint64 // packets
}

// placeKey names a loss of a record.
type placeKey struct {
	first                                         time.Time
	event                                         bool
	cause, topic, subscription, publisher, member string
}

// causeKey names a sum of a record.
type causeKey struct {
	minute time.Time
	cause  string
}

// NewNews begins with what is known.
func NewNews(seen []inspect.Seen) *News {
	n := &News{buses: make(map[busKey]*known)}
	n.Take(seen)
	return n
}

// Take returns what has been lost since the call before. Of a bus that was not there then
// it is all that it tells.
func (n *News) Take(seen []inspect.Seen) []Finding {
	var fresh []inspect.Seen
	buses := make(map[busKey]*known)
	latest := time.Time{}
	for _, s := range seen {
		if s.Err != nil {
			n.retain(buses)
			continue
		}
		p := *s.Snapshot
		p.Buses = nil
		if p.Time.After(latest) {
			latest = p.Time
		}
		for _, b := range s.Snapshot.Buses {
			if b.Losses == nil {
				continue
			}
			k := busKey{p.Process.PID, b.ID, b.Epoch}
			was := n.buses[k]
			buses[k] = knownOf(b.Losses)
			b.Losses = was.news(b.Losses)
			p.Buses = append(p.Buses, b)
		}
		fresh = append(fresh, inspect.Seen{Socket: s.Socket, Snapshot: &p})
	}
	n.buses = buses
	return n.fresh(Make(fresh, time.Time{}, latest).Findings, latest)
}

// fresh leaves out the hints that were there lately.
func (n *News) fresh(found []Finding, now time.Time) []Finding {
	hints := make(map[hintKey]time.Time)
	for k, at := range n.hints {
		if now.Sub(at) < hintAgain {
			hints[k] = at
		}
	}
	found = slices.DeleteFunc(found, func(f Finding) bool {
		if f.Kind != Hint {
			return false
		}
		k := hintKey{f.Process, f.Bus, f.Cause, f.Subscriber + f.Subscription}
		_, known := n.hints[k]
		hints[k] = now
		return known
	})
	n.hints = hints
	return found
}

// retain keeps what is known where a process did not answer this time: of all that there
// is nothing newer of, since a socket does not say whose it is.
func (n *News) retain(buses map[busKey]*known) {
	for k, v := range n.buses {
		if buses[k] == nil {
			buses[k] = v
		}
	}
}

func knownOf(r *inspect.LossRecord) *known {
	k := &known{make(map[placeKey]inspect.Loss), make(map[causeKey]uint64)}
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
	return placeKey{x.First, x.Event, x.Cause, x.Topic, x.Subscription, fmt.Sprint(x.Publisher, x.Epoch, x.Group, x.Leg), x.Subscriber}
}

// news is what a record has more than is known.
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
		x.Times, x.Messages, x.Unknown = x.Times-old.Times, x.Messages-old.Messages, x.Unknown-old.Unknown
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

// Line is a finding in one line.
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
