package cli

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"

	"github.com/fanfaremq/fanfare/internal/metricserver"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/metrics"
	"github.com/fanfaremq/fanfare/transport/faulty"
)

// defaultURL is the multicast of the default interface (package transport/udp).
const defaultURL = "udp://"

// flagSet is the flags of a command, which help and completion list in their order.
type flagSet struct {
	*flag.FlagSet
	added []*flag.Flag
}

func newFlagSet(name string) *flagSet {
	fs := &flagSet{FlagSet: flag.NewFlagSet(name, flag.ContinueOnError)}
	fs.SetOutput(io.Discard) // one line is enough, and it is ours
	fs.Usage = func() {}
	return fs
}

// add adds a flag. Its usage may name its value in back quotes ([flag.UnquoteUsage]).
func (fs *flagSet) add(v flag.Value, name, usage string) {
	fs.Var(v, name, usage)
	fs.added = append(fs.added, fs.Lookup(name))
}

// parse parses flags wherever they stand, not only before the operands: "fanfare
// sub md.trades -o file" means what it looks like. Behind "--" there are only
// operands.
func (fs *flagSet) parse(args []string) (operands []string, err error) {
	for {
		if err := fs.Parse(args); err != nil {
			return nil, err
		}
		rest := fs.Args()
		if used := len(args) - len(rest); used > 0 && args[used-1] == "--" {
			return append(operands, rest...), nil
		}
		if len(rest) == 0 {
			return operands, nil
		}
		operands = append(operands, rest[0])
		args = rest[1:]
	}
}

func (fs *flagSet) isSet(name string) (set bool) {
	fs.Visit(func(f *flag.Flag) { set = set || f.Name == name })
	return set
}

// common are the flags that all commands have.
type common struct {
	urls    []string // of the fabric, one a leg
	faults  string
	metrics string
	json    bool
	quiet   bool
	verbose bool

	unreadable  unreadable
	memberships memberships
	apart       atomic.Pointer[events.ConfigMismatchError] // the latest that may be the other side, and cannot be heard
}

func (c *common) registerURL(fs *flagSet) {
	urlsVar(fs, &c.urls, "t", []string{defaultURL}, "the fabric by its `URL`; both sides name the same.\n"+
		"udp:// is udp://239.20.0.0/16 on the interface with the route to it, without one on the first that is up for multicast, and on loopback if there is no other. "+
		"udp://239.20.0.0/16?iface=eth0 picks an interface, udp://[ff15::20:0]/112?iface=eth0 is IPv6; "+
		"other options are port=7400, groups=16, ttl=1, size=1472.\n"+
		"With map=prefix:2, in any URL, topics that begin with the same two tokens are in one group, with map=table:FILE "+
		"the file says which, in lines such as: md.xnas.> 0-3.\n"+
		"With keys=FILE, in any URL, every packet is sealed with the keys of the file: see fanfare key.\n"+
		"With sign=FILE what is published is signed, and with trust=FILE only publishers that the file trusts are heard: see fanfare key.\n"+
		"With clock=NAME, in any URL, this host's clock agrees with those of all hosts that give the same name, and so times of deliveries are known between them.\n"+
		"rdma://mlx5_0 is an RDMA adapter, in programs built with tag rdma; roce://eth0 is RoCEv2 in user space.\n"+
		"shm://NAME is shared memory, between processes of this user on one Linux host; with ?group=NAME a unix group shares it.\n"+
		"sim:// and mem:// live in one process: see fanfare demo.\n"+
		"Given more than once, each URL is a leg that carries the same, and what one loses another brings: -t udp://?iface=eth0 -t udp://?iface=eth1")
}

func (c *common) registerRest(fs *flagSet) {
	stringVar(fs, &c.faults, "faults", "", "drop, duplicate, reorder and delay what is received here, data and control, for tests; a `LIST` such as\n"+
		"loss=0.05,dup=0.02,reorder=0.05,burst=8,delay=1ms,jitter=1ms,seed=7\n"+
		"With reorder=P a share P of the packets is overtaken by up to 16 others, with burst=N losses come in runs of N on average")
	stringVar(fs, &c.metrics, "metrics", "", "serve Prometheus metrics over HTTP at `ADDR`, such as localhost:9464")
	boolVar(fs, &c.json, "json", "results as JSON on standard output")
	boolVar(fs, &c.quiet, "q", "no progress, warnings of the log or summary on standard error; what is lost, and who is waited for, is said all the same")
	boolVar(fs, &c.verbose, "v", "log what the bus does on standard error")
}

func (c *common) check() error {
	if _, err := faulty.Parse(c.faults); err != nil {
		return &usageError{fmt.Errorf("-%w", err)} // it begins with "faults:"
	}
	return nil
}

// flagOf is the flag that sets a field of pubsub.Config, and what that must be where no limit
// and the default are said otherwise than there.
var flagOf = map[string]struct{ name, must string }{
	"Name": {name: "-name"}, "Tag": {name: "-tag"}, "FlowControl": {name: "-flow"}, "Compress": {name: "-compress"}, "Dictionaries": {name: "-dict"},
	"SlowBehind": {name: "-slow-behind"}, "Silence": {"-silence", "above 0, and at most 24h0m0s"},
	"StallLimit": {"-stall-limit", "at most 24h0m0s, or 0, which waits for ever"}, "SlowFor": {"-slow-for", "above 0, and at most 24h0m0s"},
}

// open opens a bus, and serves its metrics if that is asked for, until closeBus. Nothing is
// sent by that, so whatever fails is for the user to change.
func (c *common) open(ctx context.Context, e *env, cfg pubsub.Config) (bus *pubsub.Bus, log *logHandler, closeBus func(), err error) {
	h := &logHandler{console: e.console, level: slog.LevelWarn, held: true}
	if c.verbose {
		h.level = slog.LevelDebug
	}
	cfg.Faults, cfg.Logger = c.faults, slog.New(h)
	if bus, err = cfg.Open(ctx, c.urls[0], c.urls[1:]...); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return nil, nil, nil, cause
		}
		var of *pubsub.ConfigError
		if errors.As(err, &of) && flagOf[of.Field].name != "" {
			f := flagOf[of.Field]
			return nil, nil, nil, usagef("%s %s must be %s", f.name, of.Value, cmp.Or(f.must, of.Must))
		}
		if len(c.urls) == 1 && c.urls[0] == defaultURL && !errors.Is(err, pubsub.ErrURL) {
			err = fmt.Errorf("%w; name the fabric with -t URL", err)
		}
		return nil, nil, nil, &usageError{err}
	}
	stop, err := c.serveMetrics(e, bus)
	if err != nil {
		bus.Close()
		return nil, nil, nil, err
	}
	return bus, h, func() { stop(); bus.Close() }, nil
}

func (c *common) serveMetrics(e *env, bus *pubsub.Bus) (stop func(), err error) {
	if c.metrics == "" {
		return func() {}, nil
	}
	s, err := metricserver.Serve(c.metrics, metrics.NewCollector(bus))
	if err != nil {
		return nil, &usageError{fmt.Errorf("-metrics: %w", err)}
	}
	if !c.quiet {
		e.console.line("metrics are at http://%s/metrics", s.Addr())
	}
	return func() { s.Close() }, nil
}

// showMeter reports whether a status line is wanted: not where messages pass the same terminal, and no file.
func (c *common) showMeter(stream any, file string) bool {
	_, tty := terminal(stream)
	return !c.quiet && (file != "" || !tty)
}

func checkTopics(topics []string, check func(string) error) error {
	for _, t := range topics {
		if err := check(t); err != nil {
			return &usageError{err}
		}
	}
	return nil
}
