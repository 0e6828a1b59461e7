package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// bounded ends ctx when pub has waited long enough at the end: after linger or, if that is
// negative, when no subscriber has made progress for the stall limit.
func (p *pub) bounded(ctx context.Context, linger time.Duration) (context.Context, func()) {
	if linger >= 0 {
		ctx, cancel := context.WithTimeoutCause(ctx, linger, fmt.Errorf("%w: gave up waiting after %v (-linger)", errLinger, linger))
		return ctx, cancel
	}
	var progress endProgress
	return p.whileProgress(ctx, func() int { return progress.of(p.sender().Subscribers) }, func() error {
		return fmt.Errorf("%w: gave up waiting, because no subscriber made progress for %v (-stall-limit)", errLinger, p.stall)
	})
}

// whileProgress ends ctx with cause when the result of progress has not changed for the stall
// limit. Time in which the process did not run does not count.
func (p *pub) whileProgress(ctx context.Context, progress func() int, cause func() error) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	if p.stall == 0 { // no limit
		return ctx, func() { cancel(nil) }
	}
	had, stood, last := progress(), time.Duration(0), time.Now()
	stop := every(meterEvery, func(now time.Time) {
		stood += ranFor(now.Sub(last))
		last = now
		if has := progress(); has != had {
			had, stood = has, 0
		} else if stood >= p.stall {
			cancel(cause())
		}
	})
	return ctx, func() { stop(); cancel(nil) }
}

func (p *pub) presentText() string {
	var names []string
	for _, r := range p.p.Receivers() {
		names = append(names, events.PeerText(r.ID, r.Name, r.Address))
	}
	slices.Sort(names)
	return cmp.Or(strings.Join(names, "; "), "none")
}

// endProgress counts the steps by which subscribers come closer to having everything: a subscriber has fewer packets
// to receive than ever before, or fewer subscribers are left than ever before. A subscriber that comes and goes makes
// no progress.
type endProgress struct {
	behind map[events.ID]uint64 // the minimum for each subscriber
	left   int                  // the minimum
	steps  int
}

func (e *endProgress) of(all []stats.Subscriber) int {
	if e.behind == nil {
		e.behind, e.left = make(map[events.ID]uint64), math.MaxInt
	}
	left := 0
	for _, r := range all {
		if r.Released {
			continue
		}
		left++
		before, known := e.behind[r.ID]
		if known && uint64(r.Behind) < before {
			e.steps++
		}
		if !known || uint64(r.Behind) < before {
			e.behind[r.ID] = uint64(r.Behind)
		}
	}
	if left < e.left {
		e.left = left
		e.steps++
	}
	return e.steps
}

const maxNamed = 3

// waitedFor names the subscribers that pub waits for at the end, also of other topics in the group, those furthest
// behind first. missing reports whether a subscriber of the topic lacks packets: then only subscribers that lack
// packets are named. Otherwise those named have not confirmed the end, or lack packets of other topics.
func (p *pub) waitedFor() (text string, missing bool) {
	all := slices.DeleteFunc(p.sender().Subscribers, func(r stats.Subscriber) bool { return r.Released || r.Joining })
	slices.SortFunc(all, func(a, b stats.Subscriber) int {
		return cmp.Or(cmp.Compare(b.Behind, a.Behind), cmp.Compare(a.ID, b.ID))
	})
	wants := make(map[events.ID]bool)
	for _, r := range p.p.Receivers() {
		wants[r.ID] = true
	}
	missing = slices.ContainsFunc(all, func(r stats.Subscriber) bool { return wants[r.ID] && r.Behind > 0 })
	if missing {
		all = slices.DeleteFunc(all, func(r stats.Subscriber) bool { return r.Behind == 0 })
	}
	var parts []string
	for _, r := range all[:min(len(all), maxNamed)] {
		name := events.PeerText(r.ID, r.Name, r.Address)
		if r.Behind > 0 {
			name += ", " + count(r.Behind, "packet") + " behind"
		}
		if !wants[r.ID] {
			name += ", not known to subscribe to " + p.topic
		}
		parts = append(parts, name)
	}
	if n := len(all) - len(parts); n > 0 {
		parts = append(parts, count(n, "other"))
	}
	return strings.Join(parts, "; "), missing
}

// late converts the error of a wait that timed out. It names the subscribers that lack packets. If none lacks
// packets of the topic and all messages were sent, it is nil, and the subscribers waited for are reported.
func (p *pub) late(err, cause error) error {
	var unsent *events.UnsentError
	if !errors.Is(err, errLinger) || errors.As(err, &unsent) {
		return err
	}
	text, missing := p.waitedFor()
	switch {
	case missing:
		return fmt.Errorf("%w: %s", cause, text)
	case !p.quiet && text != "":
		p.e.console.line("all subscribers of %s have received everything; end not confirmed by: %s", p.topic, text)
	}
	return nil
}
