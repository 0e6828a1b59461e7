package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/metrics"
)

// world is the bus under test for one fault, and what it has reported.
type world struct {
	*testing.T
	ctx context.Context
	bus *pubsub.Bus

	mu     sync.Mutex
	log    bytes.Buffer // guarded by mu
	events []string     // guarded by mu: label and text
}

func newWorld(t *testing.T) *world {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	return &world{T: t, ctx: ctx}
}

// Write receives the log.
func (w *world) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(b)
}

// open opens the bus that must report the fault.
func (w *world) open(c pubsub.Config, urls ...string) {
	w.Helper()
	c.Logger = slog.New(slog.NewTextHandler(w, nil))
	c.OnEvent = func(e events.Event) {
		w.mu.Lock()
		w.events = append(w.events, e.Kind.Label()+": "+e.String())
		w.mu.Unlock()
	}
	c.Name, c.Inspect = busName(w), pubsub.InspectOn
	w.bus = w.other(c, urls...)
}

// busName is the name of the bus that must report the fault.
func busName(w *world) string {
	_, name, _ := strings.Cut(w.Name(), "/")
	return name
}

// other opens another bus.
func (w *world) other(c pubsub.Config, urls ...string) *pubsub.Bus {
	w.Helper()
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Linger = -1
	b, err := c.Open(w.ctx, urls[0], urls[1:]...)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { b.Close() })
	return b
}

func (w *world) publisher(b *pubsub.Bus) *pubsub.Publisher {
	w.Helper()
	p, err := b.Publisher("x")
	if err != nil {
		w.Fatal(err)
	}
	return p
}

// read subscribes and reads all messages.
func (w *world) read(b *pubsub.Bus) *pubsub.Subscription {
	w.Helper()
	s, err := b.Subscribe("x")
	if err != nil {
		w.Fatal(err)
	}
	go func() {
		for err := error(nil); w.ctx.Err() == nil && !errors.Is(err, net.ErrClosed); {
			_, err = s.Next(w.ctx)
		}
	}()
	return s
}

// view is one way in which a bus is shown to users.
type view struct {
	name string
	show func(w *world) string
}

// views are all of them. A new view belongs here and into the table of faults.
var views = []view{
	{"metrics", (*world).metrics},
	{"events", func(w *world) string { w.mu.Lock(); defer w.mu.Unlock(); return strings.Join(w.events, "\n") }},
	{"log", func(w *world) string { w.mu.Lock(); defer w.mu.Unlock(); return w.log.String() }},
	{"losses", (*world).losses},
	{"fanfare loss", (*world).fanfareLoss},
	{"fanfare top", (*world).fanfareTop},
	{"fanfare web", (*world).fanfareWeb}, // the last, because it takes a second
}

// metrics lists the counters that are not zero, as name{label="value"}, and gauges with their values, one a line.
func (w *world) metrics() string {
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.NewCollector(w.bus))
	families, err := registry.Gather()
	if err != nil {
		w.Error(err)
	}
	var b strings.Builder
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			if m.Gauge != nil {
				fmt.Fprintf(&b, "%s{%s} %v\n", f.GetName(), strings.Join(labels, ","), m.GetGauge().GetValue())
			} else if m.GetCounter().GetValue() > 0 {
				fmt.Fprintf(&b, "%s{%s}\n", f.GetName(), strings.Join(labels, ","))
			}
		}
	}
	return b.String()
}

// losses are the causes in the loss record, which fanfare loss prints.
func (w *world) losses() string {
	var b strings.Builder
	r := w.bus.Losses()
	for _, m := range r.Minutes {
		for _, c := range m.Causes {
			fmt.Fprintln(&b, c.Cause)
		}
	}
	for _, l := range r.Losses {
		fmt.Fprintln(&b, l.Cause)
	}
	return b.String()
}

// child runs this test binary as a process with a role.
func (w *world) child(role, url string) *exec.Cmd {
	w.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestChild$", testenv.TimeLimit(w.T))
	cmd.Env = append(os.Environ(), childRole+"="+role, childURL+"="+url)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd
}

const childRole, childURL = "FANFARE_FAULT_ROLE", "FANFARE_FAULT_URL"

// TestChild is the process started by child.
func TestChild(t *testing.T) {
	role, url := os.Getenv(childRole), os.Getenv(childURL)
	if role == "" {
		return // not run as a test
	}
	b, err := pubsub.Config{Name: "the-" + role, Logger: slog.New(slog.DiscardHandler)}.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if role == "subscriber" {
		s, err := b.Subscribe("x")
		for err == nil {
			_, err = s.Next(t.Context())
		}
		t.Fatal(err)
	}
	p, err := b.Publisher("x")
	for err == nil {
		err = p.Publish(t.Context(), []byte("from a publisher that is to die"))
		time.Sleep(time.Millisecond)
	}
	t.Fatal(err)
}
