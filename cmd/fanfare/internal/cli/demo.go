package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/transport/simnet"
)

// demo publishes over a simulated subnet that loses datagrams, and tells what happened on the way.
type demo struct {
	subscribers int
	messages    uint64
	loss        float64
	flavor      string
	json        bool

	e      *env
	report demoReport
}

const (
	demoTopic = "demo.numbers"
	// demoMTU is small beside InfiniBand's 4096, so that few messages are many
	// datagrams.
	demoMTU            = 1024
	demoSize           = 200 // bytes of a message, of which the first 20 are its number
	demoMaxSubscribers = 64
	demoTimeout        = time.Minute
)

// demoRuns makes the subnet of each run another one.
var demoRuns atomic.Uint64

func (d *demo) subnetURL(name string) string {
	q := url.Values{"flavor": {d.flavor}, "mtu": {strconv.Itoa(demoMTU)}, "loss": {strconv.FormatFloat(d.loss, 'g', -1, 64)}}
	return "sim://" + name + "?" + q.Encode()
}

var errDemoTime = errors.New("time is up")

func (d *demo) run(ctx context.Context, e *env) error {
	d.e = e
	name := fmt.Sprintf("demo-%d", demoRuns.Add(1))
	d.report = demoReport{Type: "summary", URL: d.subnetURL(name), Topic: demoTopic, Messages: d.messages, Size: demoSize, started: time.Now()}
	pubBus, err := selfConfig().Open(ctx, d.report.URL)
	if err != nil {
		return err
	}
	defer pubBus.Close()
	subnet := simnet.Lookup(name)
	buses := make([]*pubsub.Bus, d.subscribers)
	counts := make([]demoCount, d.subscribers)
	limited, cancel := context.WithTimeoutCause(ctx, demoTimeout, errDemoTime)
	defer cancel()
	var wg sync.WaitGroup
	for i := range buses {
		if buses[i], err = selfConfig().Open(ctx, d.report.URL); err != nil {
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

func (d *demo) publish(ctx context.Context, bus *pubsub.Bus) error {
	pub, err := bus.Publisher(demoTopic)
	if err != nil {
		return err
	}
	if err := pub.WaitSubscribers(ctx, d.subscribers); err != nil {
		return err
	}
	d.report.started = time.Now()
	msg := []byte(strings.Repeat(".", demoSize))
	for i := range d.messages {
		copy(msg, fmt.Sprintf("%020d", i))
		if err := pub.Publish(ctx, msg); err != nil {
			return err
		}
	}
	return pub.Drain(ctx)
}

type demoCount struct {
	inOrder uint64 // messages, each the next one
	gaps    uint64 // messages that gaps told of
	fault   string // what was wrong, if anything
}

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
		case m.Number != next || len(m.Data) != demoSize || string(m.Data[:20]) != fmt.Sprintf("%020d", next):
			c.fault = fmt.Sprintf("message %d came where %d was next", m.Number, next)
			return
		default:
			c.inOrder++
			next++
		}
	}
}

func demoCommand() command {
	return command{
		name:    "demo",
		summary: "show pub/sub over a simulated RDMA subnet that loses datagrams",
		usage:   []string{"fanfare demo [flags]"},
		about: `One publisher and some subscribers run in this process over a simulated subnet:
who is a member of the multicast group and how, what was sent, lost and repaired,
and whether everybody got everything.`,
		notes: `The subnet lives in this process. So does that of -t sim://NAME in other commands:
two processes cannot meet there, for that take udp://.`,
		examples: []string{
			"fanfare demo",
			"fanfare demo -subscribers 20 -loss 0.1",
			"fanfare demo -flavor roce -json",
		},
		flags: flagsOf(func() *demo { return new(demo) }),
	}
}

func (d *demo) register(fs *flagSet) {
	choiceVar(fs, &d.flavor, "flavor", "the kind of subnet", word{"ib", "InfiniBand"}, word{"roce", "RoCE v2"})
	within(intVar(fs, &d.subscribers, "subscribers", 3, "`N` subscribers, each on a host of its own"), 1, demoMaxSubscribers)
	above(countVar(fs, &d.messages, "n", 5000, "publish `N` messages"), 0)
	within(numberVar(fs, &d.loss, "loss", 0.02, "a copy of a datagram is lost with probability `P`"), 0, 0.99)
	boolVar(fs, &d.json, "json", "the result as one JSON object")
}

func (d *demo) check(_ *flagSet, operands []string) error {
	if len(operands) > 0 {
		return usagef("demo takes no arguments: %q is too many", operands[0])
	}
	return nil
}
