package pubsub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/mem"
)

// userPanic is the value with which user code panics in these tests.
const userPanic = "the user's code panics"

// panics calls call on the test's goroutine, and reports whether it panicked with userPanic.
func panics(t *testing.T, what string, call func() error) (did bool) {
	t.Helper()
	defer func() {
		x := recover()
		if x != nil && x != userPanic {
			t.Errorf("%s: panic %v, want none or the one of the handler\n%s", what, x, debug.Stack())
		}
		did = x == userPanic
	}()
	if err := call(); err != nil {
		t.Logf("%s returned %v", what, err)
	}
	return false
}

// onCaller reports whether it runs within panics, rather than on a goroutine of a bus.
func onCaller() bool { return bytes.Contains(debug.Stack(), []byte("pubsub.panics(")) }

// returns fails the test if f does not return.
func returns(t *testing.T, ctx context.Context, what string, f func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("%s: error %v, want none", what, err)
		}
	case <-ctx.Done():
		t.Fatalf("%s does not return", what)
	}
}

// usable checks that a message published on a bus arrives, and that the bus can be closed.
func usable(t *testing.T, ctx context.Context, bus *Bus, pub *Publisher, sub *Subscription) {
	t.Helper()
	published := make(chan error, 1)
	go func() { published <- pub.Publish(ctx, []byte("usable")) }() // Publish may wait until messages are read
	returns(t, ctx, "Next", func() error {
		for {
			m, err := sub.Next(ctx)
			if err != nil || string(m.Data) == "usable" {
				return err
			}
		}
	})
	returns(t, ctx, "Publish", func() error { return <-published })
	returns(t, ctx, "Drain", func() error { return pub.Drain(ctx) })
	returns(t, ctx, "Close", bus.Close)
}

// panicky is a context whose methods panic.
type panicky struct {
	context.Context
	done, err bool
}

func (c panicky) Done() <-chan struct{} {
	if c.done {
		panic(userPanic)
	}
	return c.Context.Done()
}

func (c panicky) Err() error {
	if c.err {
		panic(userPanic)
	}
	return c.Context.Err()
}

// A panic in a context's methods reaches the caller, and a nil context is an error. The bus is usable.
func TestContextPanics(t *testing.T) {
	for _, c := range []struct {
		name string
		ctx  func(context.Context) context.Context
		err  bool // a nil context
	}{
		{"Done", func(ctx context.Context) context.Context { return panicky{Context: ctx, done: true} }, false},
		{"Err", func(ctx context.Context) context.Context { return panicky{Context: ctx, err: true, done: true} }, false},
		{"nil", func(context.Context) context.Context { return nil }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := testContext(t)
			url := memURL(t)
			pubBus, subBus := openBus(t, Config{WindowBytes: 64 << 10}, url), openBus(t, Config{ReceiveWindowBytes: 64 << 10}, url)
			sub, idle := subscribe(t, subBus, "x"), subscribe(t, subBus, "idle") // x is unread, and blocks the publisher
			newest := subscribe(t, subBus, "idle", Conflate(nil))
			pub := publisher(t, pubBus, "x")
			wait(t, ctx, pub, 1)
			for pub.TryPublish(make([]byte, 1000)) == nil {
			}
			bad := c.ctx(ctx)
			large := make([]byte, 1<<20)
			for what, call := range map[string]func() error{
				"Open":              func() error { _, err := Open(bad, url); return err },
				"Publish":           func() error { return pub.Publish(bad, make([]byte, 1000)) },
				"Publish, large":    func() error { return pub.Publish(bad, large) },
				"PublishBatch":      func() error { _, err := pub.PublishBatch(bad, [][]byte{large}); return err },
				"Flush":             func() error { return pub.Flush(bad) },
				"Drain":             func() error { return pub.Drain(bad) },
				"WaitSubscribers":   func() error { return pub.WaitSubscribers(bad, 2) },
				"Request":           func() error { _, err := pubBus.Request(bad, "x", []byte("?")); return err },
				"Next":              func() error { _, err := idle.Next(bad); return err },
				"NextBatch":         func() error { _, err := idle.NextBatch(bad, make([]Message, 2)); return err },
				"Next, conflated":   func() error { _, err := newest.Next(bad); return err },
				"Topics":            func() error { _, err := subBus.Topics(bad); return err },
				"Shutdown":          func() error { return subBus.Shutdown(bad) },
				"Messages, its end": func() error { return firstOf(idle, bad) },
			} {
				if what == "Open" && c.name == "Done" {
					continue // Open does not wait for Done
				}
				var err error
				did := panics(t, what, func() error { err = call(); return nil })
				if did == c.err {
					t.Errorf("%s: panicked: %v, error %v, want a panic or an error", what, did, err)
				}
				if c.err && (err == nil || !strings.Contains(err.Error(), "the context is nil: pass context.Background()")) {
					t.Errorf("%s: error %v, want that the context is nil", what, err)
				}
			}
			usable(t, ctx, pubBus, pub, sub)
		})
	}
}

// firstOf is the first error that Messages yields.
func firstOf(s *Subscription, ctx context.Context) error {
	for _, err := range s.Messages(ctx) {
		return err
	}
	return nil
}

// A panic of a Trace function that Publish calls reaches the caller.
func TestTracePanics(t *testing.T) {
	ctx := testContext(t)
	url := memURL(t)
	var armed atomic.Bool
	pubBus, subBus := openBus(t, Config{Trace: &Trace{Sent: func(TraceSent) {
		if onCaller() && armed.CompareAndSwap(true, false) {
			panic(userPanic)
		}
	}}}, url), openBus(t, Config{}, url)
	sub, pub := subscribe(t, subBus, "x"), publisher(t, pubBus, "x")
	wait(t, ctx, pub, 1)
	for _, c := range []struct {
		what string
		call func() error
	}{
		{"Publish", func() error { return pub.Publish(ctx, []byte("x")) }},
		{"Publish, large", func() error { return pub.Publish(ctx, make([]byte, 1<<20)) }},
		{"PublishBatch", func() error { _, err := pub.PublishBatch(ctx, [][]byte{[]byte("y"), make([]byte, 1<<20)}); return err }},
		{"Flush", func() error { return errors.Join(pub.Publish(ctx, []byte("z")), pub.Flush(ctx)) }},
	} {
		armed.Store(true)
		for i := 0; armed.Load(); i++ { // the loop may send instead
			if did := panics(t, c.what, c.call); did == armed.Load() {
				t.Errorf("%s: panicked %v, want %v", c.what, did, !did)
			}
		}
	}
	usable(t, ctx, pubBus, pub, sub)
}

// panickyKeys is a KeyProvider that panics, or has no valid key.
type panickyKeys struct {
	ring
	armed atomic.Bool
}

func (k *panickyKeys) Keys() *KeySet {
	if onCaller() && k.armed.CompareAndSwap(true, false) {
		panic(userPanic)
	}
	return k.ring.Keys()
}

// A panic of a KeyProvider that Publish calls reaches the caller, also while Close waits for the sending call.
func TestKeyProviderPanics(t *testing.T) {
	ctx := testContext(t)
	url := memURL(t)
	keys := new(panickyKeys)
	keys.use(t, newKey(t))
	pubBus, subBus := openBus(t, Config{Keys: keys}, url), openBus(t, Config{Keys: keys}, url)
	sub, pub := subscribe(t, subBus, "x"), publisher(t, pubBus, "x")
	wait(t, ctx, pub, 1)
	keys.armed.Store(true)
	for keys.armed.Load() {
		panics(t, "Publish", func() error { return pub.Publish(ctx, []byte("x")) })
	}
	usable(t, ctx, pubBus, pub, sub)
}

// logFunc is a slog.Handler that calls a function with the text of each line.
type logFunc func(text string)

func (logFunc) Enabled(context.Context, slog.Level) bool        { return true }
func (f logFunc) WithAttrs([]slog.Attr) slog.Handler            { return f }
func (f logFunc) WithGroup(string) slog.Handler                 { return f }
func (f logFunc) Handle(_ context.Context, r slog.Record) error { f(r.Message); return nil }

// refusing is a transport whose senders return an error if send is set, and whose Wait returns one if poll is set.
type refusing struct {
	transport.Transport
	send, poll *atomic.Bool
}

func (r refusing) NewSender(group int) (transport.Sender, error) {
	s, err := r.Transport.NewSender(group)
	return refusingSender{s, r.send}, err
}

type refusingSender struct {
	transport.Sender
	armed *atomic.Bool
}

func (s refusingSender) Send(t *transport.Outbound) (int, error) {
	if s.armed.CompareAndSwap(true, false) {
		return 0, errors.New("refused")
	}
	return s.Sender.Send(t)
}

func (r refusing) Wait(d time.Duration) error {
	if r.poll.CompareAndSwap(true, false) {
		return errors.New("refused")
	}
	return r.Transport.Wait(d)
}

// A Logger may use the bus that logs: it can publish, even if the line is about a failed publish; calls that wait for
// the bus are refused.
func TestLoggerUsesTheBus(t *testing.T) {
	ctx := testContext(t)
	network := mem.NewNetwork()
	open := func(c Config, wrap func(transport.Transport) transport.Transport) *Bus {
		m, err := mem.Open(mem.Config{Network: network})
		if err != nil {
			t.Fatal(err)
		}
		b, err := c.OpenTransport(wrap(m))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		return b
	}
	var pubBus *Bus
	var pub *Publisher
	used := make(chan string, 16)
	var send, poll atomic.Bool
	log := logFunc(func(text string) {
		if text != report.SendFailed.Text && text != report.WaitFailed.Text {
			return
		}
		if err := pub.TryPublish([]byte(text)); err != nil {
			t.Errorf("publishing %s: TryPublish: %v", text, err)
		}
		if err := pub.Publish(ctx, []byte(text)); err != nil {
			t.Errorf("publishing %s: Publish: %v", text, err)
		}
		for what, call := range map[string]func() error{
			"Close":     pubBus.Close,
			"Subscribe": func() error { _, err := pubBus.Subscribe("x"); return err },
			"Drain":     func() error { return pub.Drain(ctx) },
		} {
			if err := call(); !errors.Is(err, ErrInHandler) {
				t.Errorf("%s: %s: error %v, want %v", text, what, err, ErrInHandler)
			}
		}
		pubBus.Stats()
		used <- text
	})
	pubBus = open(Config{Logger: slog.New(log), Wait: WaitPark}, func(tr transport.Transport) transport.Transport { return refusing{tr, &send, &poll} })
	subBus := open(Config{Logger: quiet}, func(tr transport.Transport) transport.Transport { return tr })
	sub := subscribe(t, subBus, "x")
	pub = publisher(t, pubBus, "x")
	wait(t, ctx, pub, 1)
	for line, arm := range map[string]*atomic.Bool{report.SendFailed.Text: &send, report.WaitFailed.Text: &poll} {
		arm.Store(true)
		returns(t, ctx, "Publish", func() error { return pub.Publish(ctx, []byte("x")) })
		returns(t, ctx, "what the Logger calls", func() error {
			select {
			case text := <-used:
				if text != line {
					return fmt.Errorf("%q is logged, want %q", text, line)
				}
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}
	usable(t, ctx, pubBus, pub, sub)
}

// userCode is user code that goroutines of a bus call, by kind.
var userCode = map[string]func(ctx context.Context, c Config, url string) error{
	"handler": func(ctx context.Context, c Config, url string) error {
		b, err := c.Open(ctx, url)
		if err == nil {
			_, err = b.Handle("x", func(Message, error) { panic(userPanic) })
		}
		return err
	},
	"handler with its own goroutine": func(ctx context.Context, c Config, url string) error {
		b, err := c.Open(ctx, url)
		if err == nil {
			_, err = b.Handle("x", func(Message, error) { panic(userPanic) }, SlowConsumer(SlowGap))
		}
		return err
	},
	"key of Conflate": func(ctx context.Context, c Config, url string) error {
		b, err := c.Open(ctx, url)
		if err == nil {
			_, err = b.Subscribe("x", Conflate(func(Message) []byte { panic(userPanic) }))
		}
		return err
	},
	"OnEvent": func(ctx context.Context, c Config, url string) error {
		c.OnEvent = func(events.Event) { panic(userPanic) }
		b, err := c.Open(ctx, url)
		if err == nil {
			_, err = b.Subscribe("x")
		}
		return err
	},
	"Logger": func(ctx context.Context, c Config, url string) error {
		c.Logger = slog.New(alwaysPanics{slog.NewTextHandler(io.Discard, nil)})
		b, err := c.Open(ctx, url)
		if err == nil {
			_, err = b.Subscribe("x")
		}
		return err
	},
	"Trace": func(ctx context.Context, c Config, url string) error {
		c.Faults = "loss=0.3,seed=3"
		c.Trace = &Trace{Missing: func(TraceLoss) { panic(userPanic) }}
		b, err := c.Open(ctx, url)
		if err == nil {
			_, err = b.Subscribe("x")
		}
		return err
	},
	"State": func(ctx context.Context, c Config, url string) error {
		b, err := c.Open(ctx, url)
		if err != nil {
			return err
		}
		p, err := b.Publisher("x.state")
		if err == nil {
			err = p.State(func(*StateWriter) error { panic(userPanic) })
		}
		if err == nil {
			err = p.Publish(ctx, nil)
		}
		return err
	},
}

// alwaysPanics is a slog.Handler that panics, except on the goroutine that opens the bus.
type alwaysPanics struct{ slog.Handler }

func (alwaysPanics) Handle(context.Context, slog.Record) error {
	if bytes.Contains(debug.Stack(), []byte("pubsub.TestUserCodeProcess(")) {
		return nil
	}
	panic(userPanic)
}

const userCodeRole = "FANFARE_USER_CODE"

// A panic of user code on a goroutine of a bus ends the process, and nothing waits.
func TestUserCodePanicsOnTheBus(t *testing.T) {
	ctx := testContext(t)
	for role := range userCode {
		t.Run(role, func(t *testing.T) {
			t.Parallel() // each waits for a process
			cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestUserCodeProcess$", testenv.TimeLimit(t))
			cmd.Env = append(os.Environ(), userCodeRole+"="+role)
			out, err := cmd.CombinedOutput()
			if err == nil || ctx.Err() != nil || !bytes.Contains(out, []byte("panic: "+userPanic)) {
				t.Errorf("process ended with %v, want the panic %q:\n%s", err, userPanic, out)
			}
		})
	}
}

// TestUserCodeProcess is the process of TestUserCodePanicsOnTheBus.
func TestUserCodeProcess(t *testing.T) {
	code := userCode[os.Getenv(userCodeRole)]
	if code == nil {
		return // a normal test run
	}
	ctx := testContext(t)
	url := memURL(t)
	other := openBus(t, Config{}, url)
	if err := code(ctx, Config{Logger: quiet, RecoveryDeadline: time.Minute}, url); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Subscribe("x.state", From(State)); err != nil {
		t.Fatal(err)
	}
	for p := publisher(t, other, "x"); ctx.Err() == nil; time.Sleep(time.Millisecond) {
		publish(t, ctx, p, "x")
	}
}

// Zero values and nil options cause errors with a remedy.
func TestZeroValues(t *testing.T) {
	ctx := testContext(t)
	bus := openBus(t, Config{}, memURL(t))
	var zeroBus Bus
	var nilBus *Bus
	var pub Publisher
	var sub Subscription
	for what, call := range map[string]func() error{
		"Bus.Publisher":             func() error { _, err := zeroBus.Publisher("x"); return err },
		"nil Bus.Publisher":         func() error { _, err := nilBus.Publisher("x"); return err },
		"Bus.Subscribe":             func() error { _, err := zeroBus.Subscribe("x"); return err },
		"Bus.Handle":                func() error { _, err := zeroBus.Handle("x", func(Message, error) {}); return err },
		"Bus.Request":               func() error { _, err := zeroBus.Request(ctx, "x", nil); return err },
		"Bus.Survey":                func() error { _, err := zeroBus.Survey(); return err },
		"Bus.Topics":                func() error { _, err := zeroBus.Topics(ctx); return err },
		"Bus.Close":                 zeroBus.Close,
		"Bus.Shutdown":              func() error { return zeroBus.Shutdown(ctx) },
		"Publisher.Publish":         func() error { return pub.Publish(ctx, nil) },
		"Publisher.TryPublish":      func() error { return pub.TryPublish(nil) },
		"Publisher.PublishBatch":    func() error { _, err := pub.PublishBatch(ctx, nil); return err },
		"Publisher.Flush":           func() error { return pub.Flush(ctx) },
		"Publisher.Drain":           func() error { return pub.Drain(ctx) },
		"Publisher.WaitSubscribers": func() error { return pub.WaitSubscribers(ctx, 1) },
		"Publisher.State":           func() error { return pub.State(func(*StateWriter) error { return nil }) },
		"Publisher.Retain":          pub.Retain,
		"Publisher.Close":           func() error { return pub.Close(ctx) },
		"Subscription.Next":         func() error { _, err := sub.Next(ctx); return err },
		"Subscription.Add":          func() error { return sub.Add("x") },
		"Subscription.Remove":       func() error { return sub.Remove("x") },
		"Survey.Topics":             func() error { _, err := new(Survey).Topics(); return err },
		"Survey.Close":              func() error { return new(Survey).Close() },
		"Subscription.NextBatch":    func() error { _, err := sub.NextBatch(ctx, make([]Message, 1)); return err },
		"Subscription.Messages":     func() error { return firstOf(&sub, ctx) },
		"Subscription.Err":          sub.Err,
		"Subscription.Close":        sub.Close,
	} {
		if err := call(); err == nil || !strings.Contains(err.Error(), "it is a zero value: use the one that Open, or a method of the bus, returned") {
			t.Errorf("%s: error %v, want that it is a zero value", what, err)
		}
	}
	for what, call := range map[string]func() error{
		"subscribe to \"x\": option 2 of 2 is nil": func() error { _, err := bus.Subscribe("x", PublisherEvents(), nil); return err },
		"it needs a function that writes the state": func() error {
			p, err := bus.Publisher("x")
			if err != nil {
				return err
			}
			return p.State(nil)
		},
		"Handle needs a handler": func() error { _, err := bus.Handle("x", nil); return err },
		"the transport is nil":   func() error { _, err := Config{}.OpenTransport(nil); return err },
	} {
		if err := call(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("error %v, want one containing %q", err, what)
		}
	}
}
