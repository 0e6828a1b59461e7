package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math"
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

func demoCommand(fs *flag.FlagSet) func(context.Context, *env, []string) error {
	d := new(demo)
	intVar(fs, "subscribers", &d.subscribers, 3)
	countVar(fs, "n", &d.messages, 5000)
	intVar(fs, "size", &d.size, 200)
	valueVar(fs, "loss", &d.loss, 0.02, parseShare, "a probability below 1, such as 0.02")
	countVar(fs, "seed", &d.seed, 1)
	choiceVar(fs, "flavor", &d.flavor, "ib", "roce")
	choiceVar(fs, "sendonly", &d.sendOnly, "on", "off")
	durationVar(fs, "timeout", &d.timeout, time.Minute)
	fs.BoolVar(&d.json, "json", false, "")
	fs.BoolVar(&d.verbose, "v", false, "")
	return func(ctx context.Context, e *env, operands []string) error {
		d.e = e
		if err := d.check(operands); err != nil {
			return err
		}
		return d.run(ctx)
	}
}

func parseShare(text string) (float64, error) {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(x) || x < 0 || x >= 1 {
		return 0, strconv.ErrRange
	}
	return x, nil
}

func (d *demo) check(operands []string) error {
	switch {
	case len(operands) > 0:
		return usagef("demo takes no arguments: %q is too many", operands[0])
	case d.subscribers < 1 || d.subscribers > demoMaxSubscribers:
		return usagef("-subscribers %d must be from 1 to %d", d.subscribers, demoMaxSubscribers)
	case d.messages < 1:
		return usagef("-n %d must be 1 at least", d.messages)
	case d.size < demoMinSize || d.size > maxMessage:
		return usagef("-size %d must be from %d to %d bytes", d.size, demoMinSize, maxMessage)
	case d.flavor == "roce" && d.sendOnly == "off":
		return usagef("-sendonly off is a subnet manager that refuses send-only members; RoCE has none: leave it out, or take -flavor ib")
	case d.timeout <= 0:
		return usagef("-timeout %v must be more than 0", d.timeout)
	}
	return nil
}

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

func (d *demo) run(ctx context.Context) error {
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
