package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/fanfaremq/fanfare/examples/marketdata/feed"
	"github.com/fanfaremq/fanfare/transport/faulty"
)

// Defaults of a run: about eight seconds, and a few without a rate limit.
const (
	defaultSymbols     = 50
	defaultMessages    = 500_000
	defaultUnpaced     = 3_000_000 // messages, without a rate limit
	defaultRate        = 60_000    // messages per second
	defaultSubscribers = 3
	joining            = 3 // with -join
)

// Limits of a run, which keep a typing error from overloading the machine; the library has its own.
const (
	maxSubscribers = 64
	minRate        = 10 // messages per second; below it a pause looks like a stall
	maxRate        = 1e9
)

// config holds the flags.
type config struct {
	File        string  // "" for a generated feed
	Symbols     int     // of a file: the busiest ones, 0 for all
	Messages    uint64  // of a file: the first ones, 0 for all
	Rate        float64 // messages per second, 0 for no limit
	Subscribers int
	Join        int    // more subscribers, which join in mid-feed
	Faults      string // simulated network faults of each subscriber, "" for none
	Seed        uint64 // of the generated feed
	URL         string // of the bus
}

// feed is the configuration of the generator.
func (c config) feed() feed.Config {
	// A run without a rate limit still has timestamps.
	rate := cmp.Or(c.Rate, defaultRate)
	return feed.Config{Symbols: c.Symbols, Messages: c.Messages, Rate: rate, Seed: c.Seed}
}

const usage = `Marketdata publishes the feed of a stock exchange by reliable multicast, and
proves that all subscribers end with the publisher's order books.

Usage:

    marketdata [flags]

Every symbol is a topic (md.xnas.AAPL). One publisher and several subscribers,
each in its own process, communicate by UDP multicast on the loopback interface
only. The feed is generated, or read from a file of Nasdaq TotalView-ITCH 5.0
messages; Nasdaq publishes such files of whole days.

Flags:

`

const examples = `
Examples:

    go run ./examples/marketdata
        a generated feed, paced, about eight seconds
    go run ./examples/marketdata -rate 0
        a generated feed at full speed, and its rate
    go run ./examples/marketdata -faults loss=0.01,dup=0.02,reorder=0.05,seed=7
        the same, while every subscriber loses 1 % of the packets
    go run ./examples/marketdata -join
        three more subscribers join in mid-feed: each begins with the publisher's
        books, and continues with the next message
    go run ./examples/marketdata -file 12302019.NASDAQ_ITCH50.gz -messages 2000000 -symbols 100
        the 100 busiest symbols of the first two million messages of a real day

Exit status: 0 if all books are equal, 1 if they are not or the run failed,
2 if a flag or the file cannot be used; then nothing was sent.
`

// errHelp is returned after the help was printed.
var errHelp = errors.New("help requested")

// parseFlags parses the command line. Errors fit on one line.
func parseFlags(args []string, stdout io.Writer) (config, error) {
	var c config
	fs := flag.NewFlagSet("marketdata", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // print one line on a mistake, not the whole help
	fs.StringVar(&c.File, "file", "", "read messages from `F` (ITCH 5.0 in BinaryFILE framing, plain, gzip or zstd) instead of generating them")
	fs.IntVar(&c.Symbols, "symbols", 0, fmt.Sprintf("generate `N` symbols (default %d); with a file use the N busiest (default all)", defaultSymbols))
	fs.Uint64Var(&c.Messages, "messages", 0, fmt.Sprintf("generate `N` book messages (default %d, with -rate 0 %d); with a file read the first N (default all)", defaultMessages, defaultUnpaced))
	fs.Float64Var(&c.Rate, "rate", defaultRate, "publish `R` messages a second on average; 0: as fast as possible")
	fs.IntVar(&c.Subscribers, "subscribers", defaultSubscribers, "start `N` subscribers")
	join := fs.Bool("join", false, fmt.Sprintf("start %d more subscribers in mid-feed. They begin with the publisher's books (From(State))", joining))
	fs.StringVar(&c.Faults, "faults", "", "simulated network faults of each subscriber, a `LIST`: loss=P,dup=P,reorder=P,burst=N,delay=D,jitter=D,seed=N")
	fs.Uint64Var(&c.Seed, "seed", 1, "generate the feed from seed `N`")
	err := fs.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, usage)
		fs.SetOutput(stdout)
		fs.PrintDefaults()
		fmt.Fprint(stdout, examples)
		return c, errHelp
	}
	if err != nil {
		return c, err
	}
	if *join {
		c.Join = joining
	}
	if fs.NArg() > 0 {
		return c, fmt.Errorf("unexpected argument %q (use -file for a file)", fs.Arg(0))
	}
	isSet := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { isSet[f.Name] = true })
	if isSet["file"] && c.File == "" {
		return c, errors.New("-file: the name is empty")
	}
	if c.File != "" && isSet["seed"] {
		return c, errors.New("-seed: only for a generated feed")
	}
	for name, zero := range map[string]bool{"symbols": c.Symbols <= 0, "messages": c.Messages == 0} {
		if isSet[name] && zero {
			return c, fmt.Errorf("-%s: must be 1 or more", name)
		}
	}
	if c.File == "" {
		messages := uint64(defaultMessages)
		if c.Rate == 0 {
			messages = defaultUnpaced
		}
		c.Symbols, c.Messages = cmp.Or(c.Symbols, defaultSymbols), cmp.Or(c.Messages, messages)
		if c.Symbols > feed.MaxSymbols {
			return c, fmt.Errorf("-symbols: %d is more than the maximum %d", c.Symbols, feed.MaxSymbols)
		}
	}
	if c.Rate != 0 && !(c.Rate >= minRate && c.Rate <= maxRate) {
		return c, fmt.Errorf("-rate: %v must be 0 or from %v to %v messages a second", c.Rate, minRate, maxRate)
	}
	if limit := maxSubscribers - c.Join; c.Subscribers < 1 || c.Subscribers > limit {
		return c, fmt.Errorf("-subscribers: %d must be from 1 to %d", c.Subscribers, limit)
	}
	if _, err := faulty.Parse(c.Faults); err != nil {
		return c, fmt.Errorf("-%w", err) // the error begins with "faults: "
	}
	return c, nil
}

// oneLine puts an error on one line.
func oneLine(err error) string {
	return strings.Join(strings.Fields(err.Error()), " ")
}
