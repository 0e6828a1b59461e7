package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/transport/simnet"
)

// demo publishes to several subscribers over a simulated subnet that loses
// datagrams, all in this process, and tells what happened on the way.
// demoreport.go writes it down.
type demo struct {
	subscribers int
	messages    uint64
	size        int
	loss        float64
	seed        uint64
	flavor      demoFlavor
	sendOnly    demoSwitch
	timeout     time.Duration
	json        bool
	verbose     bool

	e      *env
	report demoReport
}

type (
	demoFlavor string
	demoSwitch string
)

const (
	demoTopic = "demo.numbers"
	// demoMTU is small beside InfiniBand's 4096, so that few messages are many
	// datagrams.
	demoMTU            = 1024
	demoMaxSubscribers = 64
	demoMinSize        = 20 // the longest number
)

// demoRuns makes the subnet of each run another one.
var demoRuns atomic.Uint64

// subnetURL is that of a subnet that nobody else uses.
func (d *demo) subnetURL(name string) string {
	q := url.Values{"flavor": {string(d.flavor)}, "mtu": {strconv.Itoa(demoMTU)}, "seed": {strconv.FormatUint(d.seed, 10)}}
	q.Set("loss", strconv.FormatFloat(d.loss, 'g', -1, 64))
	if d.sendOnly == "off" {
		q.Set("sendonly", "off")
	}
	return "sim://" + name + "?" + q.Encode()
}

var errDemoTime = errors.New("time is up")

func (d *demo) run(ctx context.Context, e *env) error {
	d.e = e
	name := fmt.Sprintf("demo-%d", demoRuns.Add(1))
	d.report.begin(d, d.subnetURL(name))
	log := slog.DiscardHandler
	if d.verbose {
		log = &logHandler{console: d.e.console, level: slog.LevelDebug}
	}
	open := func() (*pubsub.Bus, error) {
		return pubsub.Config{Logger: slog.New(log)}.Open(ctx, d.report.URL)
	}
	pubBus, err := open()
	if err != nil {
		return err
	}
	defer pubBus.Close()
	subnet := simnet.Lookup(name)
	buses := make([]*pubsub.Bus, d.subscribers)
	counts := make([]demoCount, d.subscribers)
	limited, cancel := context.WithTimeoutCause(ctx, d.timeout, errDemoTime)
	defer cancel()
	var wg sync.WaitGroup
	for i := range buses {
		if buses[i], err = open(); err != nil {
			return err
		}
		defer buses[i].Close()
		sub, err := buses[i].Subscribe(demoTopic)
		if err != nil {
			return err
		}
		wg.Go(func() { counts[i].read(limited, sub, d) })
	}
	// Whatever the end, the readers are waited for before their buses close.
	defer wg.Wait()
	defer cancel()
	err = d.publish(limited, pubBus)
	if err != nil {
		cancel() // nothing more comes
	}
	wg.Wait()
	d.report.end(d, subnet, pubBus, buses, counts)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err != nil {
		d.report.Error = err.Error()
	}
	if err := d.report.write(d); err != nil {
		return err
	}
	switch {
	case err != nil:
		return fmt.Errorf("publishing: %w", err)
	case !d.report.Complete:
		return errReported // the report says it
	}
	return nil
}

// publish sends the messages: each begins with its number.
func (d *demo) publish(ctx context.Context, bus *pubsub.Bus) error {
	pub, err := bus.Publisher(demoTopic)
	if err != nil {
		return err
	}
	if err := pub.WaitSubscribers(ctx, d.subscribers); err != nil {
		return err
	}
	d.report.started = time.Now()
	msg := []byte(strings.Repeat(".", d.size))
	for i := range d.messages {
		copy(msg, fmt.Sprintf("%020d", i))
		if err := pub.Publish(ctx, msg); err != nil {
			return err
		}
	}
	return pub.Drain(ctx)
}

// demoCount is what a subscriber got.
type demoCount struct {
	inOrder uint64 // messages, each the next one
	gaps    uint64 // messages that gaps told of
	fault   string // what was wrong, if anything
}

// read reads until all messages are accounted for.
func (c *demoCount) read(ctx context.Context, sub *pubsub.Subscription, d *demo) {
	for next := uint64(0); next < d.messages; {
		m, err := sub.Next(ctx)
		var gap *pubsub.GapError
		switch {
		case errors.As(err, &gap):
			c.gaps += gap.Count
			next += gap.Count
			if c.fault == "" {
				c.fault = gap.Error()
			}
		case err != nil:
			c.fault = err.Error()
			return
		case m.Number != next || len(m.Data) != d.size || string(m.Data[:demoMinSize]) != fmt.Sprintf("%020d", next):
			c.fault = fmt.Sprintf("message %d came where %d was next", m.Number, next)
			return
		default:
			c.inOrder++
			next++
		}
	}
}
