package cli

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/fanfaremq/fanfare/internal/compress"
	"github.com/fanfaremq/fanfare/internal/metricserver"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/metrics"
	"github.com/fanfaremq/fanfare/transport/faulty"
)

// defaultURL is the multicast of the default interface (package transport/udp).
const defaultURL = "udp://"

// Texts of flags that several commands share.
const (
	jsonFindings = "findings as JSON objects on standard output, the last one is a summary"
	jsonResult   = "the result as one JSON object"
)

var wordITCH = word{string(framingITCH), "each message follows its length, a 2-byte big-endian number (Nasdaq BinaryFILE)"}

// flagSet is the flags of a command. Help and completion list them in this order.
type flagSet struct {
	*flag.FlagSet
	added []*flag.Flag
}

func newFlagSet(name string) *flagSet {
	fs := &flagSet{FlagSet: flag.NewFlagSet(name, flag.ContinueOnError)}
	fs.SetOutput(io.Discard) // errors are reported in one line of our own
	fs.Usage = func() {}
	return fs
}

func (fs *flagSet) add(v flag.Value, name, usage string) {
	fs.Var(v, name, usage)
	fs.added = append(fs.added, fs.Lookup(name))
}

// parse accepts flags before, between and after operands, such as "fanfare sub md.trades -o file".
// After "--" all arguments are operands.
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

// common holds the flags of all commands that open a bus.
type common struct {
	urls    []string // of the fabric, one for each leg
	faults  string
	metrics string
	json    bool
	quiet   bool
	verbose bool

	unreadable  unreadable
	memberships memberships
	apart       atomic.Pointer[events.ConfigMismatchError] // the latest mismatch with a bus that may be the other side
}

func (c *common) registerURL(fs *flagSet) {
	urlsVar(fs, &c.urls, "t", []string{defaultURL}, "the fabric as a `URL`, the same on both sides, such as udp://?iface=eth0 "+
		"or shm://NAME. Several URLs are legs that carry the same packets. See fanfare help url")
}

const urlHelp = `The URLs of -t. Both sides must use the same URL.

  udp://            UDP multicast, the same as udp://239.20.0.0/16. The interface is
                    the one with the route to the groups, otherwise the first that is
                    up and supports multicast, otherwise loopback. Options:
                    iface=eth0, port=7400, groups=16, ttl=1, size=1472.
  udp://[ff15::20:0]/112?iface=eth0   IPv6
  shm://NAME        shared memory between processes of one user on one Linux host;
                    ?group=NAME also admits processes of that Unix group
  rdma://mlx5_0     an RDMA adapter, in programs built with -tags rdma
  roce://eth0       RoCEv2 in user space
  sim://, mem://    within one process, as in fanfare demo

In any URL:

  keys=FILE         seal every packet with the keys in FILE: see fanfare help key
  sign=FILE         sign messages with the key in FILE: see fanfare help key
  trust=FILE        deliver only messages of the publishers trusted in FILE
  map=prefix:2      put topics with the same first two tokens in one group;
                    map=table:FILE: by lines of FILE such as: md.xnas.> 0-3
  clock=NAME        the clock of this host is synchronized with those of all hosts
                    with the same NAME: delivery times between them are measured

If -t is given several times, each URL is a leg that carries the same packets, so one
lost on a leg is received on another: -t udp://?iface=eth0 -t udp://?iface=eth1
`

func (c *common) registerOther(fs *flagSet) {
	boolVar(fs, &c.json, "json", "results as JSON on standard output")
	boolVar(fs, &c.quiet, "q", "no progress, log warnings or summary on standard error; losses, and subscribers that the command waits for, are still reported")
	boolVar(fs, &c.verbose, "v", "write the full log of the bus to standard error")
	stringVar(fs, &c.metrics, "metrics", "", "serve Prometheus metrics over HTTP at `ADDR`, such as localhost:9464")
	stringVar(fs, &c.faults, "faults", "", "for tests: drop, duplicate, reorder and delay received data and control packets; a `LIST` such as\n"+
		"loss=0.05,dup=0.02,reorder=0.05,burst=8,delay=1ms,jitter=1ms,seed=7\n"+
		"With reorder=P up to 16 packets overtake a share P of the packets. With burst=N losses come in runs of N packets on average")
}

func (c *common) check() error {
	if _, err := faulty.Parse(c.faults); err != nil {
		return &usageError{fmt.Errorf("-%w", err)} // the error begins with "faults:"
	}
	return nil
}

// flagOf maps fields of pubsub.Config to the flags that set them, with the allowed values where the flag's differ from
// the field's.
var flagOf = map[string]struct{ name, must string }{
	"Name": {name: "-name"}, "Tag": {name: "-tag"}, "FlowControl": {name: "-flow"}, "Compress": {name: "-compress"}, "Dictionaries": {name: "-dict"},
	"SlowBehind": {name: "-slow-behind"}, "Silence": {"-silence", "above 0, and at most 24h0m0s"},
	"StallLimit": {"-stall-limit", "at most 24h0m0s, or 0, which waits forever"}, "SlowFor": {"-slow-for", "above 0, and at most 24h0m0s"},
}

// open opens a bus and serves its metrics until closeBus. It sends nothing, so every failure is a usage error.
func (c *common) open(ctx context.Context, e *env, cfg pubsub.Config) (bus *pubsub.Bus,
	log *logHandler, closeBus func(), err error) {
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
			err = fmt.Errorf("%w; set the fabric with -t URL", err)
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

// showMeter reports whether to show a status line: not if messages are written to the same terminal, and not with -o
// FILE.
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

// value is a flag's value. Unlike those of package flag its errors state the valid values.
type value[T any] struct {
	val    *T
	parse  func(string) (T, error)
	format func(T) string
	must   string // completes "it must be"
	name   string // placeholder in help, unless the flag's usage has one
	from   []word // the valid words; nil: any value

	inBounds func(T) bool // reports whether the value is in bounds; nil: no bounds
	bound    string       // completes "it must be"
}

func (v *value[T]) placeholder() string { return v.name }
func (v *value[T]) words() []word       { return v.from }

func (v *value[T]) String() string {
	if v.val == nil {
		return ""
	}
	return v.format(*v.val)
}

func (v *value[T]) Set(text string) error {
	x, err := v.parse(text)
	if err != nil {
		return errors.New("it must be " + v.must)
	}
	if v.inBounds != nil && !v.inBounds(x) {
		return errors.New("it must be " + v.bound)
	}
	*v.val = x
	return nil
}

// within, atLeast and above bound the values that users may give; the default may be outside and stands for no value.
func within[T cmp.Ordered](v *value[T], lo, hi T) {
	v.inBounds, v.bound = func(x T) bool { return lo <= x && x <= hi }, fmt.Sprintf("from %v to %v", lo, hi)
}

func atLeast[T cmp.Ordered](v *value[T], lo T) {
	v.inBounds, v.bound = func(x T) bool { return x >= lo }, fmt.Sprintf("%v or more", lo)
}

func above[T cmp.Ordered](v *value[T], limit T) {
	v.inBounds, v.bound = func(x T) bool { return x > limit }, fmt.Sprintf("more than %v", limit)
}

func valueVar[T any](
	fs *flagSet, val *T, name string, def T, usage string, parse func(string) (T, error), must string,
) *value[T] {
	format := func(x T) string { return fmt.Sprint(x) }
	return addValue(fs, name, def, usage, &value[T]{val: val, parse: parse, format: format, must: must})
}

func addValue[T any](fs *flagSet, name string, def T, usage string, v *value[T]) *value[T] {
	*v.val = def
	fs.add(v, name, usage)
	return v
}

func stringVar(fs *flagSet, val *string, name, def, usage string) {
	valueVar(fs, val, name, def, usage, func(text string) (string, error) { return text, nil }, "")
}

// urls is a flag that may be given several times; the first value replaces the default.
type urls struct {
	val *[]string
	set bool
}

func (u *urls) String() string {
	if u.val == nil {
		return ""
	}
	return strings.Join(*u.val, " ")
}

func (u *urls) Set(text string) error {
	if !u.set {
		*u.val, u.set = nil, true
	}
	*u.val = append(*u.val, text)
	return nil
}

func urlsVar(fs *flagSet, val *[]string, name string, def []string, usage string) {
	*val = def
	fs.add(&urls{val: val}, name, usage)
}

func boolVar(fs *flagSet, val *bool, name, usage string) {
	fs.BoolVar(val, name, false, usage)
	fs.added = append(fs.added, fs.Lookup(name))
}

func durationVar(fs *flagSet, val *time.Duration, name string, def time.Duration, usage string) *value[time.Duration] {
	format := func(d time.Duration) string {
		text := d.String() // 1m0s
		if short, ok := strings.CutSuffix(text, "m0s"); ok {
			text = short + "m"
		}
		return text
	}
	return addValue(fs, name, def, usage, &value[time.Duration]{
		val: val, parse: time.ParseDuration, format: format, must: "a time with its unit, such as 500ms or 5s", name: "D",
	})
}

func intVar(fs *flagSet, val *int, name string, def int, usage string) *value[int] {
	return valueVar(fs, val, name, def, usage, strconv.Atoi, "a whole number")
}

func countVar(fs *flagSet, val *uint64, name string, def uint64, usage string) *value[uint64] {
	parse := func(text string) (uint64, error) { return strconv.ParseUint(text, 10, 64) }
	return valueVar(fs, val, name, def, usage, parse, "a whole number, not negative")
}

func numberVar(fs *flagSet, val *float64, name string, def float64, usage string) *value[float64] {
	parse := func(text string) (float64, error) { return strconv.ParseFloat(text, 64) }
	return valueVar(fs, val, name, def, usage, parse, "a number")
}

// maxRate keeps arithmetic on rates far from overflow.
const maxRate = 1e12

func rateVar(fs *flagSet, val *float64, name, usage string) {
	v := numberVar(fs, val, name, 0, usage)
	within(v, 0, maxRate)
	v.must = "a number of messages a second, not negative; 0 is no limit"
	v.bound = v.must
}

// word is a valid value of a flag or operand, with its meaning for help and completion. Capitals at
// its end are a placeholder; the command checks the text there.
type word struct {
	text  string
	means string // may be empty
}

func (w word) matches(text string) bool {
	begins := strings.TrimRightFunc(w.text, unicode.IsUpper)
	return w.text == text || begins != w.text && strings.HasPrefix(text, begins)
}

func plainWords[T ~string](texts ...T) (words []word) {
	for _, t := range texts {
		words = append(words, word{text: string(t)})
	}
	return words
}

// choiceVar is a flag with one of several words, the first by default.
func choiceVar[T ~string](fs *flagSet, val *T, name, usage string, from ...word) {
	parse := func(text string) (T, error) {
		if !slices.ContainsFunc(from, func(w word) bool { return w.matches(text) }) {
			return "", strconv.ErrSyntax
		}
		return T(text), nil
	}
	addValue(fs, name, T(from[0].text), usage, &value[T]{
		val: val, parse: parse, format: func(x T) string { return string(x) }, must: "one of " + texts(from, ", "), name: "WORD", from: from,
	})
}

func wordsOf(f *flag.Flag) []word {
	if c, ok := f.Value.(interface{ words() []word }); ok {
		return c.words()
	}
	return nil
}

type packFlags struct {
	compress pubsub.Compression
	dicts    []string
}

const maxDictionary = 1 << 20 // the largest dictionary, in bytes

func compressVar(fs *flagSet, val *pubsub.Compression, usage string) {
	choiceVar(fs, val, "compress", usage,
		word{string(pubsub.CompressNone), "no compression"},
		word{string(pubsub.CompressS2), "S2, the fastest: some 0.1 µs for a small message"},
		word{"s2:better", "slower S2 with better compression; not with -dict"},
		word{string(pubsub.CompressZstd), "Zstandard, the smallest, for some 0.8 µs; same as zstd:fastest"},
		word{"zstd:LEVEL", "LEVEL is fastest, default, better or best; better takes three times as long as fastest and saves 2 to 5 % more bytes"})
}

func dictVar(fs *flagSet, val *[]string, usage string) {
	urlsVar(fs, val, "dict", nil, "the dictionary in `FILE`, made by fanfare dict. "+usage)
}

func readDictionaries(files []string) (all [][]byte, err error) {
	for _, name := range files {
		b, err := readDictionary(name)
		if err != nil {
			return nil, usagef("-dict: %v", err)
		}
		all = append(all, b)
	}
	return all, nil
}

func readDictionary(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, pathError(err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxDictionary+1))
	if err != nil {
		return nil, pathError(err)
	}
	if len(b) > maxDictionary {
		return nil, fmt.Errorf("%s has more than %d bytes, the maximum for a dictionary: make one with fanfare dict", name, maxDictionary)
	}
	if _, err := pubsub.DictionaryName(b); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return b, nil
}

func tapDictionaries(names []string) (dicts []*compress.Dictionary, err error) {
	files, err := readDictionaries(names)
	if err != nil {
		return nil, err
	}
	for _, b := range files {
		d, err := compress.NewDictionary(b)
		if err != nil {
			return nil, err
		}
		dicts = append(dicts, d)
	}
	return dicts, nil
}
