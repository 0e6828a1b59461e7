package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	"github.com/fanfaremq/fanfare/examples/marketdata/report"
)

// stallLimit is how long all roles together may be silent before the run fails, so that it cannot hang.
const stallLimit = 30 * time.Second

// run is a run of the example, in the parent. It is not safe for concurrent use; each role runs in
// its own goroutine, which begin starts and do waits for.
type run struct {
	cfg     config
	plan    *plan
	start   starter
	printer *report.Printer
	out     io.Writer // for lines around the printer's output

	events  chan tagged
	roles   sync.WaitGroup
	started time.Time // approximate time of the first message

	ready       int // subscribers that have joined
	joined      int // further subscribers that were started in mid-feed
	finished    int // roles that have sent their last event
	publisher   publisherState
	subscribers []subscriberState // by index - 1
}

// do runs publisher and subscribers to their end, and returns nil if all books are equal.
func (r *run) do(ctx context.Context) error {
	defer r.roles.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.events = make(chan tagged)
	r.subscribers = make([]subscriberState, r.cfg.Subscribers+r.cfg.Join)
	for i := range r.cfg.Subscribers {
		r.begin(ctx, i+1)
	}
	if err := r.follow(ctx); err != nil {
		return err
	}
	r.printer.Final(r.total(time.Now()))
	r.rate()
	return r.verdict()
}

// join starts the joining subscribers that are due: they are spread over the feed.
func (r *run) join(ctx context.Context) {
	for r.joined < r.cfg.Join && r.publisher.Published >= r.plan.Total*uint64(1+r.joined)/uint64(1+r.cfg.Join) {
		r.joined++
		r.begin(ctx, r.cfg.Subscribers+r.joined)
	}
}

// begin starts a subscriber, or the publisher (0). Its goroutine ends when the role ends, at the latest when ctx ends.
func (r *run) begin(ctx context.Context, subscriber int) {
	j := job{Config: r.cfg, Plan: r.plan, Subscriber: subscriber}
	r.roles.Go(func() {
		if err := r.start(ctx, j, r.events); err != nil {
			select {
			case r.events <- tagged{j, event{Kind: kindFailed, Error: oneLine(err)}}:
			case <-ctx.Done():
			}
		}
	})
}

// follow handles and shows events until all roles have sent their last one.
func (r *run) follow(ctx context.Context) error {
	every := time.Second
	if r.printer.Live() {
		every = progressEvery
	}
	show := time.NewTicker(every)
	defer show.Stop()
	stall := time.NewTimer(stallLimit)
	defer stall.Stop()
	for r.finished < 1+len(r.subscribers) {
		select {
		case e := <-r.events:
			stall.Reset(stallLimit)
			if err := r.event(ctx, e); err != nil {
				return err
			}
		case now := <-show.C:
			if !r.started.IsZero() {
				r.printer.Show(r.frame(now))
			}
			if err := r.printer.Err(); err != nil {
				return err
			}
		case <-stall.C:
			return fmt.Errorf("no event for %v: giving up", stallLimit)
		case <-ctx.Done():
			return errors.New("interrupted")
		}
	}
	return nil
}

// event handles one event. An error ends the run.
func (r *run) event(ctx context.Context, e tagged) error {
	if e.Publisher != nil {
		r.publisher = *e.Publisher
		r.join(ctx)
	}
	if e.Subscriber != nil {
		r.subscribers[e.job.Subscriber-1] = *e.Subscriber
	}
	switch e.Kind {
	case kindReady:
		if e.job.Subscriber == 0 {
			r.started = time.Now()
		} else if r.ready++; r.ready == r.cfg.Subscribers { // joining subscribers come later
			r.begin(ctx, 0)
		}
	case kindDone:
		r.finished++
	case kindFailed:
		return fmt.Errorf("%s: %s", e.job.name(), e.Error)
	}
	return nil
}

// frame is the present state for the printer.
func (r *run) frame(now time.Time) *report.Frame {
	f := &report.Frame{
		Elapsed:   now.Sub(r.started),
		Published: r.publisher.Published,
		Total:     r.plan.Total,
		Rate:      r.publisher.Rate,
		Top:       r.subscribers[0].Top,
	}
	for _, s := range r.subscribers {
		f.Subscribers = append(f.Subscribers, s.Subscriber)
	}
	return f
}

// total is the frame for the whole run: rates are means, from sending the first message to receiving the last one.
func (r *run) total(now time.Time) *report.Frame {
	f := r.frame(now)
	var longest time.Duration
	for i, s := range r.subscribers {
		f.Subscribers[i].Rate = mean(s.Messages, s.Took)
		longest = max(longest, s.Took)
	}
	if longest > 0 {
		f.Elapsed = longest
	}
	f.Rate = mean(f.Published, f.Elapsed)
	return f
}

// rate prints the rate to the slowest subscriber, and whether it was limited.
func (r *run) rate() {
	to, slowest := "each of the subscribers", math.Inf(1)
	if len(r.subscribers) == 1 {
		to = "the subscriber"
	}
	for _, s := range r.subscribers[:r.cfg.Subscribers] {
		slowest = min(slowest, mean(s.Messages, s.Took))
	}
	requested := "full speed"
	if r.cfg.Rate > 0 {
		requested = fmt.Sprintf("paced at %s messages/s", report.Count(r.cfg.Rate))
	}
	fmt.Fprintf(r.out, "\n%s: %s messages/s to %s\n", requested, report.Count(slowest), to)
}

// verdict reports whether the books are equal, and further remarks.
func (r *run) verdict() error {
	p := r.publisher
	if p.Unknown > 0 {
		fmt.Fprintf(r.out, "\n%d messages refer to orders that the feed never added (unknown references), because it begins in\n"+
			"mid-session. They change no book on either side.\n", p.Unknown)
	}
	wrong := 0
	for i, s := range r.subscribers {
		if s.Digest == p.Digest && s.Before+s.Messages == p.Published && s.Disorder == 0 {
			if i >= r.cfg.Subscribers {
				fmt.Fprintf(r.out, "subscriber %d joined after %d of %d messages: it began with the books, and %d followed\n", i+1, s.Before, p.Published, s.Messages)
			}
			continue
		}
		wrong++
		fmt.Fprintf(r.out, "\nsubscriber %d: books differ from the publisher's: %d of %d messages, %d lost in %d gaps, %d out of order, digest %v, not %v\n",
			i+1, s.Before+s.Messages, p.Published, s.Lost, s.Gaps, s.Disorder, s.Digest, p.Digest)
	}
	if wrong > 0 {
		return fmt.Errorf("the books of %d of %d subscribers differ from the publisher's", wrong, len(r.subscribers))
	}
	fmt.Fprintf(r.out, "\nbooks equal: %d of %d subscribers have the publisher's %d orders after %d messages\ndigest %v\n",
		len(r.subscribers), len(r.subscribers), p.Orders, p.Published, p.Digest)
	return nil
}
