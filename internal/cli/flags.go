package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/fanfaremq/fanfare/internal/metricserver"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/metrics"
	"github.com/fanfaremq/fanfare/transport/faulty"
)

// defaultURL is the default interface's multicast, and loopback where there is
// none (package transport/udp).
const defaultURL = "udp://"

func newFlagSet(name string) *flag.FlagSet {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(io.Discard) // one line is enough, and it is ours
	fs.Usage = func() {}
	return fs
}

// parseFlags parses flags wherever they stand, not only before the operands:
// "fanfare sub md.trades -o file" means what it looks like. Behind "--" there
// are only operands.
func parseFlags(fs *flag.FlagSet, args []string) (operands []string, err error) {
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

// isSet reports whether the user gave a flag.
func isSet(fs *flag.FlagSet, name string) (set bool) {
	fs.Visit(func(f *flag.Flag) { set = set || f.Name == name })
	return set
}

// common are the flags that all commands have.
type common struct {
	url     string
	faults  string
	metrics string
	json    bool
	quiet   bool
	verbose bool
}

func (c *common) register(fs *flag.FlagSet) {
	fs.StringVar(&c.url, "t", defaultURL, "")
	fs.StringVar(&c.faults, "faults", "", "")
	fs.StringVar(&c.metrics, "metrics", "", "")
	fs.BoolVar(&c.json, "json", false, "")
	fs.BoolVar(&c.quiet, "q", false, "")
	fs.BoolVar(&c.verbose, "v", false, "")
}

// check says what is wrong with the flags, as far as they tell by themselves.
func (c *common) check() error {
	if _, err := faulty.Parse(c.faults); err != nil {
		return &usageError{fmt.Errorf("-%w", err)} // it begins with "faults:"
	}
	return nil
}

// open opens a bus. Nothing is sent by that, so whatever fails is for the user
// to change.
func (c *common) open(ctx context.Context, e *env, cfg pubsub.Config) (*pubsub.Bus, *logHandler, error) {
	h := &logHandler{console: e.console, level: slog.LevelWarn, held: true}
	if c.verbose {
		h.level = slog.LevelDebug
	}
	cfg.Faults, cfg.Logger = c.faults, slog.New(h)
	bus, err := cfg.Open(ctx, c.url)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return nil, nil, cause
		}
		if c.url == defaultURL && !errors.Is(err, pubsub.ErrURL) {
			err = fmt.Errorf("%w; name the fabric with -t URL", err)
		}
		return nil, nil, &usageError{err}
	}
	return bus, h, nil
}

// serveMetrics serves the bus's metrics, if that is asked for, until stop is
// called.
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

// checkTopics says which topics cannot be.
func checkTopics(topics []string) error {
	for _, t := range topics {
		if err := pubsub.CheckTopic(t); err != nil {
			return &usageError{err}
		}
	}
	return nil
}

// choice is a flag that takes one of several words.
type choice[T ~string] struct {
	val  *T
	from []T
}

func (c choice[T]) String() string {
	if c.val == nil {
		return ""
	}
	return string(*c.val)
}

func (c choice[T]) Set(text string) error {
	var words []string
	for _, w := range c.from {
		if string(w) == text {
			*c.val = w
			return nil
		}
		words = append(words, string(w))
	}
	return fmt.Errorf("it must be one of %s", strings.Join(words, ", "))
}

func choiceVar[T ~string](fs *flag.FlagSet, name string, val *T, from ...T) {
	*val = from[0]
	fs.Var(choice[T]{val, from}, name, "")
}

// What follows is what package flag has too, but says what to write instead.

func valueVar[T any](fs *flag.FlagSet, name string, val *T, def T, parse func(string) (T, error), must string) {
	*val = def
	fs.Func(name, "", func(text string) error {
		v, err := parse(text)
		if err != nil {
			return errors.New("it must be " + must)
		}
		*val = v
		return nil
	})
}

func durationVar(fs *flag.FlagSet, name string, val *time.Duration, def time.Duration) {
	valueVar(fs, name, val, def, time.ParseDuration, "a time with its unit, such as 500ms or 5s")
}

func intVar(fs *flag.FlagSet, name string, val *int, def int) {
	valueVar(fs, name, val, def, strconv.Atoi, "a whole number")
}

func countVar(fs *flag.FlagSet, name string, val *uint64, def uint64) {
	parse := func(text string) (uint64, error) { return strconv.ParseUint(text, 10, 64) }
	valueVar(fs, name, val, def, parse, "a whole number, not negative")
}

func rateVar(fs *flag.FlagSet, name string, val *float64) {
	parse := func(text string) (float64, error) {
		x, err := strconv.ParseFloat(text, 64)
		if err == nil && !(x >= 0 && x <= maxRate) { // false for NaN too
			err = strconv.ErrRange
		}
		return x, err
	}
	valueVar(fs, name, val, 0, parse, "a number of messages a second, not negative; 0 is no limit")
}

// maxRate keeps arithmetic on rates far from its limits.
const maxRate = 1e12
