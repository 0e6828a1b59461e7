package bench

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fanfaremq/fanfare/bench/worker"
)

// strategy is one of flow control, as the stopped subscribers are measured with.
type strategy struct {
	key  string
	flow func(others int) worker.Flow
	// limited: who does not wait for the slowest is given a quarter of the rate of who does
	// (keyOurs), as its user should: at full rate the slow ones lose without anybody
	// being stopped.
	limited bool
	// letsGo: who is stopped costs the others nothing, it is said.
	letsGo bool
}

// strategies are measured in this order. The first is keyOurs with nobody stopped.
var strategies = []strategy{
	{key: "min", flow: func(int) worker.Flow { return worker.Flow{} }},
	{key: "none", flow: func(int) worker.Flow { return worker.Flow{Control: "none"} }, limited: true, letsGo: true},
	{key: "max", flow: func(int) worker.Flow { return worker.Flow{Control: "max"} }, limited: true},
	{key: keyQuorum, flow: func(others int) worker.Flow { return worker.Flow{Control: fmt.Sprint("quorum:", others)} }, letsGo: true},
	{key: "release", flow: func(int) worker.Flow { return worker.Flow{SlowBehind: releaseBehind, SlowFor: releaseFor} }, letsGo: true},
}

const (
	stoppedSuffix = "-stopped"
	// keyQuorum waits for as many as are not stopped: without anybody stopped the slowest
	// ones lose.
	keyQuorum = "quorum"
	// releaseBehind and releaseFor are Config.SlowBehind and SlowFor of the strategy
	// release: what it costs once is to be small beside a run.
	releaseBehind = 1000
	releaseFor    = 100 * time.Millisecond
	limitedShare  = 0.25
)

// mayLose reports whether a contestant leaves its slowest subscribers behind on purpose.
func mayLose(key string) bool { return key == keyQuorum }

// stoppedVariants are two of each strategy, one with stopped subscribers.
func stoppedVariants() (all []contestant) {
	for i, st := range strategies {
		set := func(s *Settings, w *worker.Spec, stopped int) {
			w.Flow = st.flow(s.Subs - s.Stopped)
			w.Flow.Stopped = stopped
		}
		when := func(s *Settings) bool { return s.Stopped > 0 }
		by := keyOurs // with nobody stopped
		if i > 0 {
			by = st.key
			all = append(all, contestant{key: st.key, when: when, tweak: func(s *Settings, w *worker.Spec) { set(s, w, 0) }})
		}
		key := st.key + stoppedSuffix
		all = append(all, contestant{key: key, when: when, tweak: func(s *Settings, w *worker.Spec) { set(s, w, s.Stopped) }, of: key, by: by})
	}
	return all
}

// limit gives a contestant that waits for fewer than all a rate that all can take.
func (b *Bench) limit(key string, s *worker.Spec) {
	key = strings.TrimSuffix(key, stoppedSuffix)
	i := slices.IndexFunc(strategies, func(st strategy) bool { return st.key == key })
	if b.Stopped > 0 && i >= 0 && strategies[i].limited {
		s.Flow.Rate = int64(limitedShare * b.full)
	}
}

func (s *Settings) checkStopped() error {
	switch {
	case s.Stopped == 0:
		return nil
	case s.Stopped < 0 || s.Stopped >= s.Subs:
		return fmt.Errorf("-stopped %d must be less than -subs %d: the others are what is measured", s.Stopped, s.Subs)
	case s.Together || s.InProcess():
		return errors.New("-stopped stops processes: subscribers must be processes of their own, over udp or roce")
	case s.Many() || s.Split:
		return errors.New("-stopped is measured with one publisher on one topic")
	case !worker.CanSuspend:
		return errors.New("-stopped needs a system that can stop a process for a while: Linux, macOS or another Unix")
	}
	return nil
}

// wireRate is what a contestant publishes on the wire, in bytes a second, if it counts it.
func (o *outcome) wireRate() float64 {
	return o.pub.Figures["packets"] * float64(o.spec.MTU) / (float64(o.pub.End-o.pub.Start) / 1e9)
}

// stoppedMetrics are of the subscribers that were stopped, and of who waits for them.
var stoppedMetrics = []metric{
	{"publisher_longest_us", "", asPeak, func(o *outcome) float64 { return o.pub.Figures["longest_chunk_us"] }},
	{"stopped_lost", "", asSum, func(o *outcome) (n float64) {
		for _, s := range o.stopped {
			n += float64(s.Lost)
		}
		return n
	}},
}

// stoppedColumns are those of a table with stopped subscribers.
var stoppedColumns = join(rateColumns, []column{
	{"published/s", false, func(p *Point, who string) string { return Short(p.Value(who, "published_per_s")) }},
	figure("longest wait, ms", "publisher_longest_us", "%.1f", 1e-3),
	figure("lost", "lost", "%.0f", 1),
	figure("lost by the stopped", "stopped_lost", "%.0f", 1),
	{"of none stopped", false, func(p *Point, who string) string {
		if r := p.Ratio(who); r.Has() && strings.HasSuffix(who, stoppedSuffix) {
			return fmt.Sprintf("%.2f (%.2f – %.2f)", r.Median, r.Min, r.Max)
		}
		return ""
	}},
})
