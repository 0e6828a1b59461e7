package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// pub checks everything that can be checked before it sends, waits for subscribers, publishes, and
// then waits until the subscribers have received everything.
type pub struct {
	common
	file    string
	framing framing
	rate    float64
	wait    int
	repeat  int
	flow    pubsub.FlowControl
	linger  time.Duration // negative: no limit

	// Limits for a subscriber: how long it may be silent, how far behind it may stay, and how long it may block pub.
	silence    time.Duration
	slowBehind int // 0: no limit
	slowFor    time.Duration
	stall      time.Duration // 0: no limit
	name       string
	retain     bool
	packFlags

	e     *env
	topic string
	bus   *pubsub.Bus
	p     *pubsub.Publisher
	src   *source

	messages, bytes atomic.Uint64
	present         present
	audience        audience
	waiting         atomic.Bool // waiting for the first subscribers
	written         sync.Mutex  // held while writing JSON
	began           time.Time   // when the first message was due
	elapsed         time.Duration
}

const (
	lingerDefault  = 5 * time.Second
	silenceDefault = time.Second
	stallDefault   = 30 * time.Second
	slowDefault    = 5 * time.Second
	// lingerStopped is how long pub waits for subscribers after a signal.
	lingerStopped = 2 * time.Second
	// readGrace is how long pub waits for its reader when it ends: a read of standard input cannot be interrupted.
	readGrace = 100 * time.Millisecond
)

func (p *pub) run(ctx context.Context, e *env) error {
	p.e = e
	cfg := pubsub.Config{FlowControl: p.flow, Name: p.name, Silence: p.silence, StallLimit: p.stall,
		SlowBehind: p.slowBehind, SlowFor: p.slowFor, OnEvent: p.event}
	if p.stall == 0 {
		cfg.StallLimit = pubsub.NoStallLimit
	}
	cfg.Compress = p.compress
	var err error
	if cfg.Dictionaries, err = readDictionaries(p.dicts); err != nil {
		return err
	}
	bus, log, closeBus, err := p.open(ctx, e, cfg)
	if err != nil {
		return err
	}
	defer closeBus()
	p.bus = bus
	if p.src, err = p.source(); err != nil {
		return &usageError{err}
	}
	defer p.src.close()
	log.release(p.verbose, p.quiet, pubWords) // warnings about opening concern receiving, which hardly matters to pub
	if p.p, err = bus.Publisher(p.topic); err != nil {
		return err
	}
	p.present.of.Store(p.p)
	if p.retain {
		if err := p.p.Retain(); err != nil {
			return err
		}
	}
	defer p.watchInProcess(e)()
	return p.finish(ctx, p.publish(ctx))
}

func (p *pub) source() (*source, error) {
	if p.file == "" {
		return &source{name: "standard input", frames: newFrameReader(p.e.stdin, p.framing), repeat: 1}, nil
	}
	return fileSource(p.file, p.framing, p.repeat, "use standard input, with '< "+p.file+"' instead of -file")
}

func (p *pub) event(e events.Event) {
	p.fabricEvent(p.e, e)
	switch e.Kind {
	case events.ConfigMismatch, events.ConfigDiffers:
		p.mismatch(e)
	case events.GroupFailed:
		p.e.console.line("group %s cannot be used: %v", e.Group, e.Err)
	case events.NoSubscriberHeard:
		if p.waiting.Load() && !p.verbose { // with -v the log has it
			p.e.console.peerLine("no subscriber of %s detected on %s: check that both are on the same network and interface (fanfare doctor -peer) and, with keys=, share a key",
				strings.Join(e.Topics, ", "), e.Interface)
		}
	}
	there := 0
	switch e.Kind {
	case events.SubscriberSilent:
		if !e.Relevant {
			return // a subscriber of another topic, which only the log mentions
		}
		fallthrough
	case events.SubscriberUp, events.SubscriberLeft:
		there = p.present.count() // counted now, because the subscriber may leave before the next regular count
	}
	p.reportEvent(e, there)
}

// reportEvent reports an event, and what changes for the audience with it.
func (p *pub) reportEvent(e events.Event, there int) {
	word, change := p.audience.event(&e, there)
	for _, text := range []string{stallLine(e), change} {
		if text != "" {
			p.e.console.peerLine("%s", text)
		}
	}
	for _, j := range []*jsonStall{asStall(stallWords[e.Kind], e), asStall(word, e)} {
		if j != nil {
			p.emit(j) // the summary reports the write error
		}
	}
}

func (p *pub) emit(v any) error {
	if !p.json {
		return nil
	}
	p.written.Lock()
	defer p.written.Unlock()
	return newJSONLines(p.e.stdout).write(v)
}

// mismatch reports a bus with a different configuration. A pub that waits for subscribers ends with that error.
func (p *pub) mismatch(e events.Event) {
	m := separating(e)
	if m != nil && !p.quiet && !(p.waiting.Load() && e.Relevant && p.present.max.Load() == 0) {
		p.e.console.line("%v", m)
	}
	if errors.As(e.Err, &m) {
		p.emit(mismatchAsJSON(m, e.Relevant)) // the summary reports the write error
	}
}

func (p *pub) publish(ctx context.Context) error {
	defer startMeter(p.e.console, p.showMeter(p.e.stdin, p.file), p.status())()
	defer p.keepCounting()()
	if err := p.waitSubscribers(ctx); err != nil {
		return err
	}
	p.began = time.Now()
	defer func() { p.elapsed = time.Since(p.began) }()
	done := make(chan error, 1)
	go func() { done <- p.publishAll(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(readGrace): // it is in a read, and will find ctx ended when the read returns
		return context.Cause(ctx)
	}
}

func (p *pub) waitSubscribers(ctx context.Context) error {
	if p.wait == 0 {
		return nil
	}
	notice := time.AfterFunc(waitNotice, func() {
		if !p.quiet && !p.e.console.tty {
			p.e.console.line("waiting for %s of %s, %d present", count(p.wait, "subscriber"), p.topic, p.p.Subscribers())
		}
	})
	defer notice.Stop()
	p.waiting.Store(true)
	defer p.waiting.Store(false)
	present := 0 // the highest number at a time: one subscriber that comes and goes is no progress
	bounded, stop := p.whileProgress(ctx, func() int {
		present = max(present, p.p.Subscribers())
		return present
	}, func() error {
		return fmt.Errorf("gave up, because no further subscriber came for %v (-stall-limit); present: %s", p.stall, p.presentText())
	})
	defer stop()
	err := p.p.WaitSubscribers(bounded, p.wait)
	p.present.count()
	return mismatchError(err)
}

// keepCounting counts subscribers regularly, because they come and go, and once more when stopped.
func (p *pub) keepCounting() (stop func()) {
	end := every(meterEvery, func(time.Time) {
		if p.present.count() > 0 && p.audience.empty() { // a pattern subscriber is counted only some time after it came
			for _, r := range p.p.Receivers() {
				p.reportEvent(events.Event{Kind: events.SubscriberUp, Subscriber: r.ID, Name: r.Name,
					Address: r.Address, Relevant: true}, 1)
			}
		}
	})
	return func() { end(); p.present.count() }
}

func (p *pub) publishAll(ctx context.Context) error {
	due := schedule{perSecond: p.rate}
	for {
		msgs, err := p.src.batch()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return usagef("%w (published before it: %s)", err, count(p.messages.Load(), "message"))
		}
		for len(msgs) > 0 {
			n, err := due.take(ctx, len(msgs))
			if err != nil {
				return err
			}
			n, err = p.p.PublishBatch(ctx, msgs[:n])
			p.count(msgs[:n])
			if err != nil {
				return err
			}
			msgs = msgs[n:]
		}
	}
}

func (p *pub) count(msgs [][]byte) {
	bytes := 0
	for _, m := range msgs {
		bytes += len(m)
	}
	p.messages.Add(uint64(len(msgs)))
	p.bytes.Add(uint64(bytes))
}
