package lossrecord

import (
	"cmp"
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// Minute has the counts of a minute, or of the recorded part of it.
type Minute struct {
	Start time.Time // at a full minute
	at    time.Time // monotonic start of counting, which does not change when the clock is set
	// Counts has the increase of each count of samples, in their order.
	Counts []uint64
	// Ways has the publishers with missing packets, those with the most first.
	Ways []stats.LossWay
	// OtherRepaired and OtherLost are the sums for publishers beyond MaxWays.
	OtherRepaired, OtherLost uint64
}

// wayKey identifies the stream of a publisher in a group.
type wayKey struct {
	events.Instance
	group string
}

func keyOf(w *stats.LossWay) wayKey {
	return wayKey{events.Instance{Publisher: w.Publisher, Epoch: w.Epoch}, w.Group}
}

func total(w *stats.LossWay) uint64 { return w.Repaired + w.Lost }

// Sample records increasing counters, and those of all existing streams. Their increase since the previous sample is
// added to the minute of that sample. The number of counts must not change.
func (r *Record) Sample(now time.Time, counts []uint64, ways []stats.LossWay) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.before == nil {
		r.before = make([]uint64, len(counts))
	}
	grown := make([]uint64, len(counts))
	any := false
	for i, n := range counts {
		grown[i] = grew(n, r.before[i])
		any = any || grown[i] > 0
	}
	missing := r.missing(ways)
	if any || len(missing) > 0 {
		m := r.minute(r.at, len(counts))
		for i, n := range grown {
			m.Counts[i] += n
		}
		for _, w := range missing {
			m.add(w)
		}
		m.limit()
	}
	copy(r.before, counts)
	r.at = now
	r.forgetMinutes(now.Add(-Kept))
}

// grew returns the increase of a counter. A counter that has decreased was restarted from zero.
func grew(now, before uint64) uint64 {
	if now < before {
		return now
	}
	return now - before
}

// missing returns the streams with packets missing since the previous sample. The caller holds mu.
func (r *Record) missing(ways []stats.LossWay) (grown []stats.LossWay) {
	seen := make(map[wayKey]stats.LossWay, len(ways))
	for _, w := range ways {
		key := keyOf(&w)
		seen[key] = w
		old := r.ways[key]
		w.Repaired, w.Lost = grew(w.Repaired, old.Repaired), grew(w.Lost, old.Lost)
		if total(&w) > 0 {
			grown = append(grown, w)
		}
	}
	r.ways = seen
	return grown
}

// minute returns the current minute. The caller holds mu.
func (r *Record) minute(at time.Time, counts int) *Minute {
	start := at.Truncate(time.Minute)
	if last := len(r.minutes) - 1; last < 0 || !r.minutes[last].Start.Equal(start) {
		r.minutes = append(r.minutes, Minute{Start: start, at: at, Counts: make([]uint64, counts)})
	}
	return &r.minutes[len(r.minutes)-1]
}

func (m *Minute) add(w stats.LossWay) {
	for i := range m.Ways {
		if x := &m.Ways[i]; keyOf(x) == keyOf(&w) {
			x.Name, x.Address = cmp.Or(w.Name, x.Name), cmp.Or(w.Address, x.Address)
			x.Repaired += w.Repaired
			x.Lost += w.Lost
			return
		}
	}
	m.Ways = append(m.Ways, w)
}

// limit keeps the streams with the most packets, and adds the others to OtherRepaired and OtherLost.
func (m *Minute) limit() {
	slices.SortStableFunc(m.Ways, func(a, b stats.LossWay) int { return cmp.Compare(total(&b), total(&a)) })
	if len(m.Ways) <= MaxWays {
		return
	}
	for _, w := range m.Ways[MaxWays:] {
		m.OtherRepaired += w.Repaired
		m.OtherLost += w.Lost
	}
	m.Ways = slices.Clone(m.Ways[:MaxWays])
}

func (m Minute) clone() Minute {
	m.Counts, m.Ways = slices.Clone(m.Counts), slices.Clone(m.Ways)
	return m
}

// forgetMinutes removes minutes that ended before since. The caller holds mu.
func (r *Record) forgetMinutes(since time.Time) {
	r.minutes = slices.DeleteFunc(r.minutes, func(m Minute) bool { return m.at.Add(time.Minute).Before(since) })
}
