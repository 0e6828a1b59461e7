// Marketdata distributes an exchange feed by reliable multicast: one publisher, one topic per
// symbol, several subscribers that build order books from the messages. At the end all books must
// be equal to the publisher's, order by order; the exit status reports whether they are.
//
//	go run ./examples/marketdata
//
// runs on the loopback interface of any machine and needs nothing else; -help lists the flags. The
// parts, in the order in which a message passes them:
//
//   - feed generates the messages, itch reads and writes them
//   - source.go: the feed of a run, from either
//   - plan.go: which topics there are, and which message goes to which
//   - publisher.go and bus.go publish them
//   - bus.go and receiver.go receive them
//   - book makes books of them
//   - state.go: subscribers that join with -join begin with the publisher's books
//   - run.go compares the books
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/fanfaremq/fanfare/examples/marketdata/report"
)

// Exit statuses, as in the help.
const (
	exitOK    = 0
	exitRun   = 1
	exitUsage = 2
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == childArg {
		os.Exit(runChild(os.Stdin, os.Stdout, os.Stderr))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(mainWith(ctx, os.Args[1:], os.Stdout, os.Stderr, report.New(os.Stdout)))
}

// mainWith is main with its environment as parameters, for tests.
func mainWith(ctx context.Context, args []string, stdout, stderr io.Writer, printer *report.Printer) int {
	fail := func(status int, err error) int {
		fmt.Fprintln(stderr, "marketdata:", oneLine(err))
		return status
	}
	cfg, err := parseFlags(args, stdout)
	if errors.Is(err, errHelp) {
		return exitOK
	}
	if err != nil {
		return fail(exitUsage, err)
	}
	plan, err := makePlan(cfg)
	if err != nil {
		return fail(exitUsage, err)
	}
	if cfg.URL, err = loopbackURL(); err != nil {
		return fail(exitRun, err)
	}
	introduce(stdout, cfg, plan)
	r := &run{cfg: cfg, plan: plan, start: runProcess, printer: printer, out: stdout}
	if err := r.do(ctx); err != nil {
		return fail(exitRun, err)
	}
	return exitOK
}

// introduce describes the run.
func introduce(w io.Writer, cfg config, p *plan) {
	from := fmt.Sprintf("a generated feed (seed %d)", cfg.Seed)
	if cfg.File != "" {
		from = cfg.File
	}
	fmt.Fprintf(w, "%d messages on %d topics from %s\n", p.Total, len(p.Topics), from)
	if p.Unnamed > 0 {
		fmt.Fprintf(w, "%d of the topics are named by stock locate, because no message of the file contains their symbol\n", p.Unnamed)
	}
	plural := "s"
	if cfg.Subscribers == 1 {
		plural = ""
	}
	fmt.Fprintf(w, "1 publisher, %d subscriber%s in separate processes, %s\n", cfg.Subscribers, plural, cfg.URL)
	if cfg.Rate > 0 {
		fmt.Fprintf(w, "paced at %s messages a second on average; -rate 0 publishes at full speed\n", report.Count(cfg.Rate))
	} else {
		fmt.Fprintln(w, "not paced: full speed")
	}
	if cfg.Join > 0 {
		fmt.Fprintf(w, "%d more join in mid-feed, and begin with the publisher's books\n", cfg.Join)
	}
	if cfg.Faults != "" {
		fmt.Fprintf(w, "each subscriber's network: %s\n", cfg.Faults)
	}
	fmt.Fprintln(w)
}
