package sealed

import (
	"slices"

	"github.com/fanfaremq/fanfare/transport"
)

// history is what has come of a sender.
type history struct {
	oldest, newest int64 // the earliest and the latest time that its packets stated
	heard          int64 // when the last one came, in seconds of opener.elapsed
	came           [transport.MaxLegs]*window
}

// seen reports whether a packet counts as come by a leg. It takes no memory: the packet may be made up.
func (x *history) seen(leg uint8, a arrival) bool {
	w := x.came[leg%transport.MaxLegs]
	return w != nil && w.seen(a)
}

// take notes a packet that was not seen.
func (x *history) take(leg uint8, a arrival) {
	if x.newest == 0 {
		x.oldest = a.stated
	}
	x.oldest, x.newest, x.heard = min(x.oldest, a.stated), max(x.newest, a.stated), a.at
	if leg %= transport.MaxLegs; x.came[leg] == nil {
		x.came[leg] = new(window)
	}
	x.came[leg].take(a)
}

// past are the times that senders have stated that are forgotten. What states one of them may be a packet that was taken: that matters
// where the clock of this host was set back since. Other times may have been those of a clock that was wrong, and is right again.
type past struct {
	spans []span // in order, none touches another
}

// span is the times from the first to the last.
type span struct{ first, last int64 }

// maxSpans bounds a past. Beyond that those are joined that are nearest to each other.
const maxSpans = 32

// add notes the times of a sender.
func (p *past) add(first, last int64) {
	at, _ := slices.BinarySearchFunc(p.spans, first, func(x span, first int64) int {
		if x.last+1 < first {
			return -1
		}
		return 1
	})
	end := at
	for end < len(p.spans) && p.spans[end].first <= last+1 {
		first, last = min(first, p.spans[end].first), max(last, p.spans[end].last)
		end++
	}
	p.spans = slices.Replace(p.spans, at, end, span{first, last})
	if len(p.spans) <= maxSpans {
		return
	}
	near := 0
	for i := range p.spans[:maxSpans] {
		if p.spans[i+1].first-p.spans[i].last < p.spans[near+1].first-p.spans[near].last {
			near = i
		}
	}
	p.spans[near].last = p.spans[near+1].last
	p.spans = slices.Delete(p.spans, near+1, near+2)
}

// has reports whether a time is among them, and for how long it is so from then on, in seconds.
func (p *past) has(t int64) (behind int64, yes bool) {
	for _, x := range p.spans {
		if x.first <= t && t <= x.last {
			return x.last + 1 - t, true
		}
	}
	return 0, false
}
