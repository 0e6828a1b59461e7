package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/fanfaremq/fanfare/bench/requests"
)

// The scenario request of bench: round trips of requests and their replies.

const requestScenario = "request"

// askers are those of requests that bench has; bench/peers has others.
var askers = map[string]requests.Contender{"fanfare": requests.Fanfare{}}

// requestFlags are the flags that mean something in the scenario.
var requestFlags = []string{"t", "transport", "iface", "subs", "size", "loss", "seed", "goroutines", "requests", "all-replies", "runs", "json", "q"}

func (b *benchmark) registerRequests(fs *flagSet) {
	intVar(fs, &b.requests, "requests", 10000, "`N` requests, in request. Each subscriber, a process, answers each; -goroutines ask")
	boolVar(fs, &b.allReplies, "all-replies", "wait for the replies of all subscribers, in request, and not for the first")
}

func (b *benchmark) requestSpec(fs *flagSet, operands []string) (s requests.Spec, err error) {
	if len(operands) > 1 {
		return s, usagef("bench takes one scenario: %q is too many", operands[1])
	}
	fs.Visit(func(f *flag.Flag) {
		if !slices.Contains(requestFlags, f.Name) {
			err = usagef("-%s would change nothing in request: leave it out", f.Name)
		}
	})
	s = requests.Spec{
		Contender: "fanfare", Responders: b.Subs, Requests: b.requests, Askers: b.Goroutines, Size: b.Size,
		Loss: b.Loss, Seed: b.Seed, All: b.allReplies,
	}
	if len(b.urls) > 0 {
		s.URL = b.urls[0]
	}
	scheme, _, _ := strings.Cut(s.URL, ":")
	if s.URL == "" {
		switch scheme = b.Transport; scheme {
		case "udp":
			s.URL = "udp://239.20.0.0/16?port=7467&iface=" + b.Interface
		case "shm":
			s.URL = "shm://bench-request"
		case "roce":
			s.URL = "roce://" + b.Interface + "/239.20.0.0/16"
		}
	}
	switch {
	case err != nil:
	case len(b.urls) > 1:
		err = usagef("request takes one -t")
	case scheme == "mem" || scheme == "sim":
		err = usagef("%s:// does not leave the process, and those who answer in request are processes of their own: use udp, shm or roce", scheme)
	case s.Size < 8:
		err = usagef("-size %d is too small: a request has 8 bytes at least", s.Size)
	case s.Requests < 1 || s.Responders < 1 || s.Askers < 1 || b.Runs < 1:
		err = usagef("-requests, -subs, -goroutines and -runs must be 1 or more")
	case s.Loss < 0 || s.Loss >= 1:
		err = usagef("-loss %g must be from 0 to below 1", s.Loss)
	}
	return s, err
}

func (b *benchmark) runRequests(ctx context.Context, e *env, fs *flagSet, operands []string) error {
	s, err := b.requestSpec(fs, operands)
	if err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program, to run it as subscribers: %w", err)
	}
	err = requests.Repeat(ctx, exe, b.Runs, []requests.Spec{s}, askers, b.json, clearing{e}, func(run int) {
		if !b.quiet {
			e.console.status(fmt.Sprintf("run %d of %d", run+1, b.Runs))
		}
	})
	e.console.clear()
	if err != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	return nil
}

// clearing is standard output, before which the status is cleared.
type clearing struct{ *env }

func (c clearing) Write(p []byte) (int, error) {
	c.console.clear()
	return c.stdout.Write(p)
}
