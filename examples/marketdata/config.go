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

// Defaults of a run: about eight seconds, and some without a limit.
const (
	defaultSymbols     = 50
	defaultMessages    = 500_000
	defaultUnpaced     = 3_000_000 // messages, without a limit
	defaultRate        = 60_000    // messages per second
	defaultSubscribers = 3
	joining            = 3 // with -join
)

// Limits of a run. They keep a slip of the finger from taking the machine down; the library's own are elsewhere.
const (
	maxSubscribers = 64
	minRate        = 10 // messages per second; below, a lull looks like a stall
	maxRate        = 1e9
)

// config is what the flags say.
type config struct {
	File        string  // "" for a generated feed
	Symbols     int     // of a file: the busiest, 0 for all
	Messages    uint64  // of a file: the first, 0 for all
	Rate        float64 // messages per second, 0 for no limit
	Subscribers int
	Join        int    // more subscribers, which come when the feed is in flight
	Faults      string // what each subscriber's network does, "" for nothing
	Seed        uint64 // of the generated feed
	URL         string // of the bus
}

// feed is the configuration of the generator.
func (c config) feed() feed.Config {
	// A run without a limit still has timestamps.
	rate := cmp.Or(c.Rate, defaultRate)
	return feed.Config{Symbols: c.Symbols, Messages: c.Messages, Rate: rate, Seed: c.Seed}
}

const usage = `Marketdata publishes the feed of a stock exchange by reliable multicast and
proves that all subscribers end with the publisher's order books.

Usage:

    marketdata [flags]

Every symbol is a topic (md.xnas.AAPL). One publisher and several subscribers,
each a process of its own, talk by UDP multicast on the loopback interface and
on no other. The feed is generated, or read from a file of Nasdaq TotalView-ITCH
5.0 messages, of which Nasdaq publishes whole days.

Flags:

`

const examples = `
Examples:

    go run ./examples/marketdata
        a generated feed, paced, about eight seconds
    go run ./examples/marketdata -rate 0
        a generated feed as fast as it goes, and how fast that is
    go run ./examples/marketdata -faults loss=0.01,dup=0.02,reorder=0.05,seed=7
        the same while every subscriber loses 1 % of the packets
    go run ./examples/marketdata -join
        three more subscribers come while the feed is in full flight: each begins with the
        publisher's books, and goes on with the next message
    go run ./examples/marketdata -file 12302019.NASDAQ_ITCH50.gz -messages 2000000 -symbols 100
        the 100 busiest symbols of the first two million messages of a real day

Exit status: 0 if all books are equal, 1 if they are not or the run failed,
2 if a flag or the file is not usable; then nothing was sent.
`

// errHelp says that help was asked for and has been given.
var errHelp = errors.New("help was asked for")

// parseFlags reads the command line. The error is one line.
func parseFlags(args []string, stdout io.Writer) (config, error) {
	var c config
	fs := flag.NewFlagSet("marketdata", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // one line, not the whole help, on a mistake
	fs.StringVar(&c.File, "file", "", "read messages from `F` (ITCH 5.0 in BinaryFILE framing, plain, gzip or zstd) instead of generating them")
	fs.IntVar(&c.Symbols, "symbols", 0, fmt.Sprintf("generate `N` symbols (default %d); of a file take the N busiest (default all)", defaultSymbols))
	fs.Uint64Var(&c.Messages, "messages", 0, fmt.Sprintf("generate `N` book messages (default %d, with -rate 0 %d); of a file read the first N (default all)", defaultMessages, defaultUnpaced))
	fs.Float64Var(&c.Rate, "rate", defaultRate, "publish `R` messages a second on average; 0 for as fast as possible")
	fs.IntVar(&c.Subscribers, "subscribers", defaultSubscribers, "start `N` subscribers")
	join := fs.Bool("join", false, fmt.Sprintf("start %d more subscribers while the feed is in full flight. They begin with the publisher's books (From(State))", joining))
	fs.StringVar(&c.Faults, "faults", "", "disturb what each subscriber receives by `LIST`: loss=P,dup=P,reorder=P,burst=N,delay=D,jitter=D,seed=N")
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
		return c, fmt.Errorf("unexpected argument %q (a file is given with -file)", fs.Arg(0))
	}
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if given["file"] && c.File == "" {
		return c, errors.New("-file: the name is empty")
	}
	if c.File != "" && given["seed"] {
		return c, errors.New("-seed: a file is not generated")
	}
	for name, zero := range map[string]bool{"symbols": c.Symbols <= 0, "messages": c.Messages == 0} {
		if given[name] && zero {
			return c, fmt.Errorf("-%s: want 1 or more", name)
		}
	}
	if c.File == "" {
		messages := uint64(defaultMessages)
		if c.Rate == 0 {
			messages = defaultUnpaced
		}
		c.Symbols, c.Messages = cmp.Or(c.Symbols, defaultSymbols), cmp.Or(c.Messages, messages)
		if c.Symbols > feed.MaxSymbols {
			return c, fmt.Errorf("-symbols: %d is more than %d", c.Symbols, feed.MaxSymbols)
		}
	}
	if c.Rate != 0 && !(c.Rate >= minRate && c.Rate <= maxRate) {
		return c, fmt.Errorf("-rate: %v is neither 0 nor within %v and %v messages a second", c.Rate, minRate, maxRate)
	}
	if most := maxSubscribers - c.Join; c.Subscribers < 1 || c.Subscribers > most {
		return c, fmt.Errorf("-subscribers: %d is not within 1 and %d", c.Subscribers, most)
	}
	if _, err := faulty.Parse(c.Faults); err != nil {
		return c, fmt.Errorf("-%w", err) // "faults: …" is how it begins
	}
	return c, nil
}

// oneLine makes an error fit on one line.
func oneLine(err error) string {
	return strings.Join(strings.Fields(err.Error()), " ")
}
