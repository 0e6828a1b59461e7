package bench

import (
	"math"
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/bench/worker"
)

// turns divides a run into windows, in every second of which its processes are looked at. Runs differ by more than it
// costs to be looked at; windows that follow each other do not.
type turns struct {
	began  int64 // instant of the first window (worker.Now), ns; 0: there are none
	window time.Duration
}

const (
	// leastWindow is how long a window is where the run allows: metrics and snapshots are read once in it. leastWindows is
	// how many there are in any case: two that are looked at, each between two that are not.
	leastWindow  = time.Second
	leastWindows = 5
	// Aims are judged by watchedRuns runs that take watchedTimes as long as others, of which each has many windows.
	watchedRuns, watchedTimes = 2, 12
)

// newTurns are those of a run that begins now and takes so long: all of it but a little at its beginning and its end.
func newTurns(now int64, run time.Duration) turns {
	aside := run / 20
	n := max(leastWindows, int((run-2*aside)/leastWindow))
	return turns{now + int64(aside), max((run-2*aside)/time.Duration(n), time.Millisecond)}
}

// always are turns that never end, from now on: for a load whose latency is measured, and not its rate.
func always(now int64) turns { return turns{now - int64(forEver), forEver} }

const forEver = 1000 * time.Hour

// wait is how long it is from now to the next look, which was last at the instant last, or never: 0.
func (t turns) wait(now, last int64) time.Duration {
	at := time.Duration(now - t.began)
	if last != 0 {
		at = time.Duration(last-t.began) + lookEvery
	}
	if w := at / t.window; w%2 == 0 {
		at = (w + 1) * t.window
	}
	return at - time.Duration(now-t.began)
}

// ratio is the rate in windows in which the processes were looked at, of that in those before and behind: the median of all
// that a subscriber's moments cover. ok is false where they cover none.
func (t turns) ratio(all []worker.Moment) (r float64, ok bool) {
	if t.began == 0 {
		return 0, false
	}
	var ratios []float64
	for i := 1; ; i += 2 {
		var rates [3]float64 // before, looked at, behind
		for k := range rates {
			from := t.began + int64(i-1+k)*int64(t.window)
			rate, ok := rateIn(all, from, from+int64(t.window))
			if !ok {
				if k == 0 && len(all) > 0 && from < all[0].At {
					break // it has not begun: the next
				}
				return medianOf(ratios)
			}
			rates[k] = rate
		}
		if beside := rates[0] + rates[2]; beside > 0 {
			ratios = append(ratios, 2*rates[1]/beside)
		}
	}
}

// rateIn is the rate between two instants, by the moments that are next to them; ok is false where there are none beyond.
func rateIn(all []worker.Moment, from, to int64) (perSecond float64, ok bool) {
	at := func(t int64) (n float64, ok bool) {
		i, _ := slices.BinarySearchFunc(all, t, func(m worker.Moment, t int64) int { return int(min(max(m.At-t, -1), 1)) })
		if i == 0 || i == len(all) {
			return 0, false
		}
		a, b := all[i-1], all[i]
		return float64(a.Messages) + float64(b.Messages-a.Messages)*float64(t-a.At)/float64(b.At-a.At), true
	}
	a, ok := at(from)
	b, also := at(to)
	return (b - a) / (float64(to-from) / 1e9), ok && also
}

// watchedMetrics are of who is looked at in turns.
var watchedMetrics = []metric{
	{"watched", "watched", asSpread, func(o *outcome) float64 {
		if len(o.subs) == 0 {
			return math.NaN()
		}
		if r, ok := o.turns.ratio(o.subs[0].Progress); ok {
			return r
		}
		return math.NaN()
	}},
}

func medianOf(all []float64) (median float64, ok bool) {
	if len(all) == 0 {
		return 0, false
	}
	return spreadOf(all).Median, true
}
