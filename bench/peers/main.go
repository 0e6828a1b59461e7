// Command peers compares Fanfare with alternatives for Go programs, in one run:
//
//	cd bench/peers && go run . throughput
//
// The alternatives are NATS with its server in a separate process, a hand-written loop over net.UDPConn, a Go channel
// within the process, and ZeroMQ over OpenPGM (epgm) if libzmq and a C compiler are installed. It is a separate
// module: users of Fanfare need none of these. Fanfare need none of these.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/fanfaremq/fanfare/bench"
	"github.com/fanfaremq/fanfare/bench/contenders"
	"github.com/fanfaremq/fanfare/bench/report"
	"github.com/fanfaremq/fanfare/bench/worker"
	"github.com/fanfaremq/fanfare/internal/outfile"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer cancel()
	if len(os.Args) > 1 && os.Args[1] == worker.Command {
		os.Exit(worker.Main(ctx, os.Stdin, os.Stdout, all()))
	}
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		var usage usageError
		if errors.As(err, &usage) {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

// all are Fanfare, its baselines and the peers.
func all() worker.Contenders {
	c := contenders.All()
	maps.Copy(c, worker.Contenders{
		"nats": func() worker.Contender { return natsPeer{} },
		epgm:   func() worker.Contender { return zmqPeer{} },
	})
	return c
}

const epgm = "epgm"

type usageError struct{ error }

const examples = `
Examples:
  go run . throughput
  go run . throughput -topics 1000 -peers nats -target 5
  go run . throughput -topics 1000 -order zipf -peers nats
  go run . latency -rate 50000 -html peers.html
  go run . request -subs 3 -all-replies
`

// peers holds the command line.
type peers struct {
	bench.Settings
	scenario string
	with     string // -peers
	json     bool
	html     string
}

func run(ctx context.Context, args []string) error {
	p := &peers{Settings: bench.Defaults("udp")}
	fs := flag.NewFlagSet("peers", flag.ContinueOnError)
	p.register(fs)
	err := p.parse(fs, args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err == nil {
		err = p.check(fs)
	}
	if err != nil {
		return usageError{err}
	}
	dir, err := os.MkdirTemp("", "fanfare-peers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if p.Baselines, err = choose(ctx, &p.Settings, p.scenario, p.with, dir); err != nil {
		return err
	}
	return p.measure(ctx)
}

func (p *peers) register(fs *flag.FlagSet) {
	p.Runs, p.MTU = 3, 0
	fs.StringVar(&p.Transport, "transport", p.Transport, "Fanfare's transport: udp, or mem for comparison with a Go channel")
	fs.StringVar(&p.Interface, "iface", p.Interface, "`interface`")
	fs.Func("mtu", "datagram size of Fanfare in `bytes`, such as 8K; default 1472, with mem 8192", func(text string) (err error) {
		p.MTU, err = bench.ParseMTU(text)
		return err
	})
	fs.IntVar(&p.Size, "size", p.Size, "message size in `bytes`")
	fs.IntVar(&p.Subs, "subs", p.Subs, "number of subscriber processes; in scenario request, responders (default three)")
	fs.IntVar(&p.Runs, "runs", p.Runs, "number of runs of each contender")
	fs.Float64Var(&p.Seconds, "seconds", p.Seconds, "length of a run in seconds")
	fs.Float64Var(&p.Rate, "rate", p.Rate, "scenario latency: messages a second")
	fs.IntVar(&p.Requests, "requests", p.Requests, "scenario request: requests in a run")
	fs.IntVar(&p.Goroutines, "goroutines", p.Goroutines, "scenario request: goroutines that send requests, each one after the other")
	fs.BoolVar(&p.AllReplies, "all-replies", false, "scenario request: wait for the replies of all responders, not only for the first")
	fs.Float64Var(&p.Loss, "loss", 0, "share of packets dropped at each end of Fanfare: 0.01 is 1 %. Others lose none")
	fs.IntVar(&p.Topics, "topics", p.Topics, "number of topics; with NATS as many subjects")
	fs.Func("order", "order of the topics: round, zipf or bursts; default round", func(text string) error {
		p.Order = worker.Order(text)
		return nil
	})
	fs.Float64Var(&p.Target, "target", 0, "print PASS if throughput reaches this many times each peer's, otherwise MISSED, which makes the exit code 1")
	fs.StringVar(&p.with, "peers", "auto", "the peers: some of raw, naive, nats, epgm, channel, none, or auto: those that are installed and suit the settings")
	fs.BoolVar(&p.json, "json", false, "print the result as one JSON object")
	fs.StringVar(&p.html, "html", "", "write a report with plots to `file`")
	fs.Usage = func() {
		fmt.Fprintln(fs.Output(), "Usage: go run . [flags] throughput|latency|request")
		fs.PrintDefaults()
		fmt.Fprint(fs.Output(), examples)
	}
}

// check completes and validates the settings.
func (p *peers) check(fs *flag.FlagSet) error {
	subs := false
	fs.Visit(func(f *flag.Flag) { subs = subs || f.Name == "subs" })
	if p.scenario == "request" && !subs {
		p.Subs = 3
	}
	if p.MTU == 0 {
		p.MTU = bench.Defaults(p.Transport).MTU
	}
	if p.html == "-" {
		return errors.New("-html needs a file name; use -json to write results to standard output")
	}
	return checkMeaning(fs, p.scenario)
}

func (p *peers) measure(ctx context.Context) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	b := &bench.Bench{Settings: p.Settings, Exe: exe, Contenders: all(),
		Progress: func(what string) { fmt.Fprintln(os.Stderr, what) }}
	if err := b.Check(p.scenario, b.Contenders); err != nil {
		return usageError{err}
	}
	var page *outfile.File
	if p.html != "" {
		if page, err = outfile.Create(p.html, 0o666); err != nil {
			return usageError{err}
		}
		defer page.Close()
	}
	result, failed := b.Run(ctx, p.scenario)
	if result == nil {
		return failed
	}
	if page != nil {
		text, err := report.Page(result)
		failed = errors.Join(failed, err, page.Put(text))
	}
	return errors.Join(failed, bench.Write(os.Stdout, result, p.json), result.Failed())
}

// checkMeaning refuses flags that have no effect.
func checkMeaning(fs *flag.FlagSet, scenario string) (err error) {
	fs.Visit(func(f *flag.Flag) {
		switch {
		case f.Name == "target" && scenario != "throughput":
			err = fmt.Errorf("-target has no effect in %s: leave it out", scenario)
		case slices.Contains([]string{"requests", "goroutines", "all-replies"}, f.Name) && scenario != "request":
			err = fmt.Errorf("-%s is only for request: leave it out", f.Name)
		case f.Name == "rate" && scenario != "latency":
			err = fmt.Errorf("-rate has no effect in %s: leave it out", scenario)
		}
	})
	return err
}

// parse parses the flags, before and after the scenario.
func (p *peers) parse(fs *flag.FlagSet, args []string) error {
	for {
		if err := fs.Parse(args); err != nil {
			return err
		}
		if fs.NArg() == 0 {
			break
		}
		if p.scenario != "" {
			return fmt.Errorf("%q is too many: only one scenario is allowed", fs.Arg(0))
		}
		p.scenario, args = fs.Arg(0), fs.Args()[1:]
	}
	if !slices.Contains([]string{"throughput", "latency", "request"}, p.scenario) {
		return errors.New("no scenario given: use throughput, latency or request")
	}
	return nil
}

// choose returns the peers, and builds the program for those that need one. With auto it leaves out
// peers that do not suit the settings, and reports those that are not installed.
func choose(ctx context.Context, s *bench.Settings, scenario, list, dir string) ([]string, error) {
	auto := list == "auto"
	switch {
	case auto && s.InProcess():
		list = contenders.Channel
	case auto:
		list = strings.Join([]string{contenders.Raw, contenders.Naive, "nats", epgm}, ",")
	case list == "none":
		return []string{}, nil
	}
	names := []string{}
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		err := s.CheckBaseline(scenario, name, all())
		if err == nil && name == epgm {
			if err = buildZMQ(ctx, dir); err != nil && auto {
				fmt.Fprintln(os.Stderr, "peers: without epgm:", err)
			}
		}
		switch {
		case auto && err != nil || slices.Contains(names, name):
		case err != nil:
			return nil, usageError{fmt.Errorf("-peers: %w", err)}
		default:
			names = append(names, name)
		}
	}
	return names, nil
}
