package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanfaremq/fanfare/examples/marketdata/book"
	"github.com/fanfaremq/fanfare/examples/marketdata/report"
	"github.com/fanfaremq/fanfare/internal/testenv"
)

// TestMain lets the test binary run as its own child, like the program.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == childArg {
		os.Exit(runChild(os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// scripted is a starter whose roles are functions.
func scripted(subscriber, publisher func(j job, emit func(event) error) error) starter {
	return func(ctx context.Context, j job, events chan<- tagged) error {
		emit := func(e event) error {
			select {
			case events <- tagged{j, e}:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if j.Subscriber == 0 {
			return publisher(j, emit)
		}
		return subscriber(j, emit)
	}
}

func newRun(start starter, out *bytes.Buffer) *run {
	return &run{
		cfg:     config{Subscribers: 2},
		plan:    &plan{Total: 10},
		start:   start,
		printer: report.NewPlain(out),
		out:     out,
	}
}

func TestVerdict(t *testing.T) {
	good := subscriberState{Subscriber: report.Subscriber{Messages: 10}, Digest: book.Digest{1}}
	for name, c := range map[string]struct {
		second  func(*subscriberState)
		wantErr string
		wantOut string
	}{
		"equal":         {func(*subscriberState) {}, "", "books equal: 2 of 2 subscribers"},
		"other books":   {func(s *subscriberState) { s.Digest[1] = 1 }, "books of 1 of 2", "subscriber 2: books differ"},
		"fewer":         {func(s *subscriberState) { s.Messages, s.Lost, s.Gaps = 9, 1, 1 }, "books of 1 of 2", "9 of 10 messages, 1 lost in 1 gaps"},
		"out of order":  {func(s *subscriberState) { s.Disorder = 3 }, "books of 1 of 2", "3 out of order"},
		"zero for zero": {func(s *subscriberState) { *s = subscriberState{} }, "books of 1 of 2", "0 of 10"},
	} {
		var out bytes.Buffer
		r := newRun(scripted(
			func(j job, emit func(event) error) error {
				state := good
				if j.Subscriber == 2 {
					c.second(&state)
				}
				return errors.Join(emit(event{Kind: kindReady}), emit(event{Kind: kindProgress, Subscriber: &subscriberState{}}),
					emit(event{Kind: kindDone, Subscriber: &state}))
			},
			func(j job, emit func(event) error) error {
				return emit(event{Kind: kindDone, Publisher: &publisherState{Published: 10, Digest: book.Digest{1}, Unknown: 3}})
			}), &out)
		err := r.do(t.Context())
		if got := errorText(err); !strings.Contains(got, c.wantErr) || (err == nil) != (c.wantErr == "") {
			t.Errorf("%s: error %q, want %q", name, got, c.wantErr)
		}
		if !strings.Contains(out.String(), c.wantOut) || !strings.Contains(out.String(), "unknown references") {
			t.Errorf("%s: output lacks %q, or \"unknown references\":\n%s", name, c.wantOut, out.String())
		}
	}
}

// The rate is that of the slowest subscriber, and the text includes whether it was limited.
func TestRate(t *testing.T) {
	for rate, want := range map[float64]string{
		0:      "full speed: 2.00 M messages/s to each of the subscribers",
		60_000: "paced at 60.0 k messages/s: 2.00 M messages/s to each of the subscribers",
	} {
		var out bytes.Buffer
		r := newRun(nil, &out)
		r.cfg.Rate = rate
		r.subscribers = []subscriberState{{Took: time.Second}, {Took: 2 * time.Second}}
		r.subscribers[0].Messages, r.subscribers[1].Messages = 4_000_000, 4_000_000
		if r.rate(); strings.TrimSpace(out.String()) != want {
			t.Errorf("rate line %q, want %q", out.String(), want)
		}
		if f := r.total(time.Now()); f.Elapsed != 2*time.Second || f.Subscribers[0].Rate != 4e6 {
			t.Errorf("final frame %+v, want 2 s elapsed and 4e6 messages a second", f)
		}
		out.Reset()
		introduce(&out, r.cfg, r.plan)
		if paced := strings.Contains(out.String(), "\npaced at 60.0 k messages a second"); paced != (rate > 0) || strings.Contains(out.String(), "\nnot paced") == paced {
			t.Errorf("rate %v: introduction %q, want it to say whether the rate is paced", rate, out.String())
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Any failure of a role ends the run with all roles.
func TestRunFails(t *testing.T) {
	ready := func(j job, emit func(event) error) error { return emit(event{Kind: kindReady}) }
	for name, c := range map[string]struct {
		start starter
		want  string
	}{
		"a role fails": {scripted(ready, func(j job, emit func(event) error) error {
			return emit(event{Kind: kindFailed, Error: "no route"})
		}), "publisher: no route"},
		"a role dies": {scripted(func(j job, emit func(event) error) error {
			if j.Subscriber == 2 {
				return errors.New("killed")
			}
			return ready(j, emit)
		}, nil), "subscriber 2: killed"},
		"silence": {scripted(ready, func(job, func(event) error) error { return nil }), "no event for 30s: giving up"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			if err := newRun(c.start, &out).do(t.Context()); errorText(err) != c.want {
				t.Errorf("%s: error %v, want %s", name, err, c.want)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		var out bytes.Buffer
		if err := newRun(scripted(ready, func(job, func(event) error) error { return nil }), &out).do(ctx); errorText(err) != "interrupted" {
			t.Errorf("interrupted run: error %v, want interrupted", err)
		}
	})
}

func TestForward(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want string
		n    int
	}{
		"to the last":  {`{"Kind":"ready"}` + "\n" + `{"Kind":"done"}` + "\n" + "more", "", 2},
		"nothing":      {"", "ended without a last event", 0},
		"half":         {`{"Kind":"ready"}` + "\n", "ended without a last event", 1},
		"not an event": {"Hello\n", "invalid character", 0},
	} {
		events := make(chan tagged, 10)
		err := forward(t.Context(), job{}, strings.NewReader(c.in), events)
		if !strings.Contains(errorText(err), c.want) || (err == nil) != (c.want == "") || len(events) != c.n {
			t.Errorf("%s: %v after %d events, want %q after %d", name, err, len(events), c.want, c.n)
		}
	}
}

// Mistakes on the command line yield one line on standard error, status 2, and nothing on standard output.
func TestBadCommandLine(t *testing.T) {
	sample, err := os.ReadFile(sampleFile)
	if err != nil {
		t.Fatal(err)
	}
	cut := writeFile(t, "cut", sample[:1000])
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // so that an undetected mistake starts nothing
	for _, args := range [][]string{
		{"-nosuch"}, {"file.itch"}, {"-symbols", "0"}, {"-symbols", "-1"}, {"-symbols", "1000000"}, {"-symbols", "x"},
		{"-messages", "0"}, {"-messages", "-5"}, {"-rate", "-1"}, {"-rate", "NaN"}, {"-rate", "1"}, {"-rate", "1e12"},
		{"-subscribers", "0"}, {"-subscribers", "65"}, {"-file", ""}, {"-join=x"}, {"-join", "-subscribers", "62"}, {"-file", "/nonexistent"}, {"-file", t.TempDir()},
		{"-file", cut}, {"-file", sampleFile, "-seed", "3"}, {"-file", "itch/itch.go"},
		{"-faults", "loss"}, {"-faults", "loss=2"}, {"-faults", "nosuch=1"},
	} {
		var stdout, stderr bytes.Buffer
		status := mainWith(ctx, args, &stdout, &stderr, report.NewPlain(&stdout))
		if status != exitUsage || stdout.Len() > 0 || strings.Count(stderr.String(), "\n") != 1 ||
			!strings.HasPrefix(stderr.String(), "marketdata: ") {
			t.Errorf("%q: status %d, stdout %q, stderr %q", args, status, stdout.String(), stderr.String())
		}
	}
}

func TestHelp(t *testing.T) {
	var stdout, stderr bytes.Buffer
	status := mainWith(t.Context(), []string{"-help"}, &stdout, &stderr, report.NewPlain(&stdout))
	if status != exitOK || stderr.Len() > 0 {
		t.Errorf("status %d, stderr %q, want %d and none", status, stderr.String(), exitOK)
	}
	for _, want := range []string{"-faults", "-file", "Examples:", "go run ./examples/marketdata", "Exit status: 0"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("the help lacks %q", want)
		}
	}
}

func TestStrayChild(t *testing.T) {
	var stdout, stderr bytes.Buffer
	status := runChild(strings.NewReader("what?\n"), &stdout, &stderr)
	if status != exitUsage || stdout.Len() > 0 || strings.Count(stderr.String(), "\n") != 1 {
		t.Errorf("status %d, stdout %q, stderr %q, want %d, none and one line", status, stdout.String(), stderr.String(), exitUsage)
	}
}

// runGoroutine is a starter that runs a role in this process.
func runGoroutine(ctx context.Context, j job, events chan<- tagged) error {
	role := func(j job, emit func(event) error) error { return runJob(ctx, j, emit) }
	return scripted(role, role)(ctx, j, events)
}

// endToEnd runs the example and returns its output.
func endToEnd(t *testing.T, cfg config, start starter) string {
	t.Helper()
	p, err := makePlan(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	r := &run{cfg: cfg, plan: p, start: start, printer: report.NewPlain(&out), out: &out}
	if err := r.do(t.Context()); err != nil {
		t.Fatalf("run: %v\n%s", err, out.String())
	}
	return out.String()
}

func TestEndToEndInProcess(t *testing.T) {
	for name, cfg := range map[string]config{
		"generated":         {Symbols: 20, Messages: 20_000, Subscribers: 3},
		"paced":             {Symbols: 20, Messages: 2_000, Rate: 20_000, Subscribers: 2},
		"lossy":             {Symbols: 20, Messages: 20_000, Subscribers: 2, Faults: "loss=0.05,dup=0.02,reorder=0.05,seed=1"},
		"file":              {File: sampleFile, Subscribers: 2},
		"joins":             {Symbols: 20, Messages: 6_000, Rate: 20_000, Subscribers: 1, Join: 4, Faults: "loss=0.05,seed=1"},
		"joins, full speed": {Symbols: 5, Messages: 50_000, Subscribers: 1, Join: 2},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.URL = "mem://" + strings.NewReplacer("/", "_", ",", "_").Replace(t.Name())
			out := endToEnd(t, cfg, runGoroutine)
			if strings.Count(out, " joined after ") != cfg.Join {
				t.Errorf("output shows %d late joiners, want %d:\n%s", strings.Count(out, " joined after "), cfg.Join, out)
			}
			if !strings.Contains(out, "books equal") || strings.Contains(out, "unknown references") != (name == "file") {
				t.Errorf("%s: output, want \"books equal\", and unknown references: %v:\n%s", name, name == "file", out)
			}
		})
	}
}

// With processes, UDP multicast on loopback, and packet loss.
func TestEndToEndProcesses(t *testing.T) {
	url, err := loopbackURL()
	if err != nil {
		t.Fatal(err)
	}
	url = regexp.MustCompile("port=[0-9]+").ReplaceAllString(url, fmt.Sprint("port=", testenv.Port(t))) // not used by another test
	cfg := config{Symbols: 20, Messages: 20_000, Rate: 40_000, Subscribers: 2, Join: 2, Faults: "loss=0.02,reorder=0.02,seed=1", URL: url}
	if out := endToEnd(t, cfg, runProcess); !strings.Contains(out, "books equal") {
		t.Errorf("output lacks \"books equal\":\n%s", out)
	}
}
