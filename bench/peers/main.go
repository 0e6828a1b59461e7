// Command peers measures Fanfare beside what a Go user would pick instead, in one run:
//
//	cd bench/peers && go run . throughput
//
// NATS with its server in a process of its own, a hand-written loop over net.UDPConn, in process a Go channel, and
// ZeroMQ over OpenPGM (epgm) where libzmq and a C compiler are installed. It is a module of its own: users of
// Fanfare need none of these.
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

// peers is what the command line says.
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
	fs.StringVar(&p.Transport, "transport", p.Transport, "Fanfare's fabric: udp, or mem beside a Go channel")
	fs.StringVar(&p.Interface, "iface", p.Interface, "`interface`")
	fs.Func("mtu", "`bytes` in a datagram of Fanfare's, such as 8K; default 1472, of mem 8192", func(text string) (err error) {
		p.MTU, err = bench.ParseMTU(text)
		return err
	})
	fs.IntVar(&p.Size, "size", p.Size, "`bytes` in a message")
	fs.IntVar(&p.Subs, "subs", p.Subs, "subscriber processes; of request, which has three by default, responders")
	fs.IntVar(&p.Runs, "runs", p.Runs, "runs of each")
	fs.Float64Var(&p.Seconds, "seconds", p.Seconds, "length of a run")
	fs.Float64Var(&p.Rate, "rate", p.Rate, "messages a second of latency")
	fs.IntVar(&p.Requests, "requests", p.Requests, "requests of a run of request")
	fs.IntVar(&p.Goroutines, "goroutines", p.Goroutines, "goroutines that ask, in request, each one request after the other")
	fs.BoolVar(&p.AllReplies, "all-replies", false, "wait for the replies of all responders, in request, and not for the first")
	fs.Float64Var(&p.Loss, "loss", 0, "share of packets lost at each end of Fanfare's: 0.01 is 1 %. Others lose none")
	fs.IntVar(&p.Topics, "topics", p.Topics, "topics that the publisher goes through, of NATS as many subjects")
	fs.Func("order", "how it goes through them: round, zipf or bursts; default round", func(text string) error {
		p.Order = worker.Order(text)
		return nil
	})
	fs.Float64Var(&p.Target, "target", 0, "say PASS or MISSED: whether throughput reaches this many times each peer's; MISSED is exit code 1")
	fs.StringVar(&p.with, "peers", "auto", "what to compare with: some of raw, naive, nats, epgm, channel, none, or auto: those that are installed and suit the settings")
	fs.BoolVar(&p.json, "json", false, "print the result as one JSON object")
	fs.StringVar(&p.html, "html", "", "write a report with plots to `file`")
	fs.Usage = func() {
		fmt.Fprintln(fs.Output(), "Usage: go run . [flags] throughput|latency|request")
		fs.PrintDefaults()
		fmt.Fprint(fs.Output(), examples)
	}
}

// check completes the settings, and says what is wrong with them by themselves.
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
		return errors.New("-html needs the name of a file; -json writes to standard output")
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

// checkMeaning refuses flags that were given and would change nothing.
func checkMeaning(fs *flag.FlagSet, scenario string) (err error) {
	fs.Visit(func(f *flag.Flag) {
		switch {
		case f.Name == "target" && scenario != "throughput":
			err = fmt.Errorf("-target would change nothing in %s: leave it out", scenario)
		case slices.Contains([]string{"requests", "goroutines", "all-replies"}, f.Name) && scenario != "request":
			err = fmt.Errorf("-%s is of request alone: leave it out", f.Name)
		case f.Name == "rate" && scenario != "latency":
			err = fmt.Errorf("-rate would change nothing in %s: leave it out", scenario)
		}
	})
	return err
}

// parse reads the flags, before and behind the scenario.
func (p *peers) parse(fs *flag.FlagSet, args []string) error {
	for {
		if err := fs.Parse(args); err != nil {
			return err
		}
		if fs.NArg() == 0 {
			break
		}
		if p.scenario != "" {
			return fmt.Errorf("%q is too many: give one scenario", fs.Arg(0))
		}
		p.scenario, args = fs.Arg(0), fs.Args()[1:]
	}
	if !slices.Contains([]string{"throughput", "latency", "request"}, p.scenario) {
		return errors.New("give a scenario: throughput, latency or request")
	}
	return nil
}

// choose names the peers, and makes the program for those that need one. With auto what does not suit the settings is
// left out, and what is not installed, which is said.
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
