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

// How long pub waits, before the first message and at the end, and for which subscribers.

// bounded ends ctx when pub has waited long enough at the end: after linger, or, where that is negative, when no
// subscriber has come any further for the stall limit.
func (p *pub) bounded(ctx context.Context, linger time.Duration) (context.Context, func()) {
	if linger >= 0 {
		ctx, cancel := context.WithTimeoutCause(ctx, linger, fmt.Errorf("%w: gave up waiting after %v; -linger says how long", errLinger, linger))
		return ctx, cancel
	}
	var progress endProgress
	return p.whileItMoves(ctx, func() int { return progress.of(p.sender().Subscribers) }, func() error {
		return fmt.Errorf("%w: gave up waiting, for none has come any further for %v; -stall-limit says how long", errLinger, p.stall)
	})
}

// whileItMoves ends ctx with cause when what progress returns has not changed for the stall limit, of which time in
// which the process did not run is no part.
func (p *pub) whileItMoves(ctx context.Context, progress func() int, cause func() error) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	if p.stall == 0 { // to wait for ever was asked for
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

func (p *pub) there() string {
	var names []string
	for _, r := range p.p.Receivers() {
		names = append(names, receiverName(r))
	}
	slices.Sort(names)
	return cmp.Or(strings.Join(names, "; "), "none")
}

func receiverName(r stats.Subscriber) string {
	return placed(cmp.Or(r.Name, fmt.Sprintf("%016x", r.ID)), r.Address)
}

// endProgress counts how often subscribers came closer to having everything: one had fewer packets to get than ever, or
// fewer subscribers than ever are left. One that comes, again and again, is no progress.
type endProgress struct {
	behind map[uint64]uint64 // the fewest packets of each
	left   int               // the fewest
	steps  int
}

func (e *endProgress) of(all []stats.Subscriber) int {
	if e.behind == nil {
		e.behind, e.left = make(map[uint64]uint64), math.MaxInt
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

const mostWaitedFor = 3

// waitedFor names the subscribers that pub waits for at the end, those of other topics of the group, too: first those
// that miss most. missing says that one of the topic misses something: then only those that do are named. Else those of
// the topic have everything, and those named have not confirmed the end, or miss packets of other topics.
func (p *pub) waitedFor() (text string, missing bool) {
	all := slices.DeleteFunc(p.sender().Subscribers, func(r stats.Subscriber) bool { return r.Released || r.Joining })
	slices.SortFunc(all, func(a, b stats.Subscriber) int {
		return cmp.Or(cmp.Compare(b.Behind, a.Behind), cmp.Compare(a.ID, b.ID))
	})
	wants := make(map[uint64]bool)
	for _, r := range p.p.Receivers() {
		wants[r.ID] = true
	}
	missing = slices.ContainsFunc(all, func(r stats.Subscriber) bool { return wants[r.ID] && r.Behind > 0 })
	if missing {
		all = slices.DeleteFunc(all, func(r stats.Subscriber) bool { return r.Behind == 0 })
	}
	var parts []string
	for _, r := range all[:min(len(all), mostWaitedFor)] {
		name := receiverName(r)
		if r.Behind > 0 {
			name += ", " + count(r.Behind, "packet") + " behind"
		}
		if !wants[r.ID] {
			name += ", not known to want " + p.topic
		}
		parts = append(parts, name)
	}
	if n := len(all) - len(parts); n > 0 {
		parts = append(parts, count(n, "other"))
	}
	return strings.Join(parts, "; "), missing
}

// late is what the end of the wait means: an error that names the subscribers that miss something. Where none of
// the topic misses anything it is none, unless messages were never sent: those that were waited for are named.
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
		p.e.console.line("all subscribers of %s have everything; not confirmed the end: %s", p.topic, text)
	}
	return nil
}
