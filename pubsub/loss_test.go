package pubsub

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// losses sums the gaps that subscriptions delivered.
type losses struct {
	mu  sync.Mutex
	sum map[events.Cause]stats.Loss // under mu
}

func (l *losses) add(err error) {
	var gap *GapError
	if !errors.As(err, &gap) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sum == nil {
		l.sum = make(map[events.Cause]stats.Loss)
	}
	x := l.sum[gap.Cause]
	l.sum[gap.Cause] = stats.Loss{Cause: gap.Cause, Gaps: x.Gaps + 1, Messages: x.Messages + gap.Count}
}

// Every gap delivered to a reader or a handler is counted under its cause.
func TestLossIsCounted(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	for _, c := range []struct {
		name      string
		config    Config
		cause     events.Cause
		unknown   bool // the number of lost messages is unknown
		lose, end func(w *rawPublisher)
	}{
		{"deadline", Config{RecoveryDeadline: 20 * time.Millisecond}, events.CauseDeadline, false, func(w *rawPublisher) { w.lose(3) }, nil},
		{"gone", Config{RecoveryDeadline: time.Hour}, events.CauseGone, false, func(w *rawPublisher) {
			first := w.seq
			w.lose(2)
			w.publish("reveals the loss")
			var gone wire.RangesBuilder
			gone.Begin(nil, w.header, wire.TypeGone, 0, first, wire.ReasonOverwritten, 0, 1472)
			gone.Add(first, 2)
			w.send(gone.Finish())
		}, nil},
		{"restart", Config{RecoveryDeadline: time.Hour}, events.CauseRestart, true, func(w *rawPublisher) {
			w.lose(2)
			w.publish("reveals the loss")
			w.header.Epoch++
			w.seq, w.number = 0, 0
		}, nil},
		{"too large", Config{MaxMessage: 20}, events.CauseTooLarge, false, func(w *rawPublisher) { w.publish(strings.Repeat("x", 21)) }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := testContext(t)
			bus := openBus(t, c.config, udpURL(t))
			var reported losses
			handled := make(chan struct{})
			sub := subscribe(t, bus, "x")
			if _, err := bus.Handle("x", func(m Message, err error) {
				reported.add(err)
				if string(m.Data) == "end" {
					close(handled)
				}
			}); err != nil {
				t.Fatal(err)
			}
			w := newRawPublisher(t, bus.Stats().Groups[0].Address)
			for bus.Stats().Groups[0].Packets == 0 { // until the group is joined
				w.publish("first")
				time.Sleep(time.Millisecond)
			}
			c.lose(w)
			for c.cause == events.CauseRestart && !counted(bus, c.cause) { // the first instance is found lost after seconds
				w.publish("another instance")
				time.Sleep(20 * time.Millisecond) // unread messages must fit into the window
			}
			w.publish("end")
			var own losses
			for {
				m, err := sub.Next(ctx)
				if ctx.Err() != nil {
					t.Fatal(err)
				}
				if own.add(err); string(m.Data) == "end" {
					break
				}
			}
			<-handled
			for _, x := range bus.Stats().Lost {
				a, b := own.sum[x.Cause], reported.sum[x.Cause]
				want := stats.Loss{Cause: x.Cause, Gaps: a.Gaps + b.Gaps, Messages: a.Messages + b.Messages}
				if x != want {
					t.Errorf("counted losses %+v, delivered gaps %+v, want equal ones", x, want)
				}
				if is := x.Gaps > 0; is != (x.Cause == c.cause) {
					t.Errorf("cause %v has %d gaps, want gaps only for cause %v", x.Cause, x.Gaps, c.cause)
				}
				if x.Cause == c.cause && (x.Gaps < 2 || !c.unknown && x.Messages < 2) {
					t.Errorf("%+v: want one gap of the reader and one of the handler", x)
				}
				if x.Cause == c.cause {
					checkLossRecord(t, bus, x)
				}
			}
		})
	}
}

// checkLossRecord checks that the loss record has the losses of one cause.
func checkLossRecord(t *testing.T, b *Bus, want stats.Loss) {
	t.Helper()
	r := b.Losses()
	var sum stats.Loss
	for _, x := range r.Losses {
		if x.Event {
			continue
		}
		if x.Cause != want.Cause.Label() || x.Subscription != "x" || x.Publisher == 0 || x.Address == "" || x.Group != b.Stats().Groups[0].Address || x.First.Before(r.From) || x.Last.After(r.To) {
			t.Errorf("recorded loss %+v between %v and %v, want cause %s of topic x, within these times", x, r.From, r.To, want.Cause.Label())
		}
		if x.Unknown == 0 && (x.Topic != "x" || x.Messages == 0 || x.Number == 0) {
			t.Errorf("recorded loss %+v, want topic x with messages and their number", x)
		}
		sum.Gaps, sum.Messages = sum.Gaps+x.Times, sum.Messages+x.Messages
	}
	if sum.Gaps != want.Gaps || sum.Messages != want.Messages {
		t.Errorf("recorded %d gaps of %d messages, counted %+v, want equal numbers", sum.Gaps, sum.Messages, want)
	}
	var minutes stats.CauseCount
	for _, m := range r.Minutes {
		for _, c := range m.Causes {
			if c.Cause == want.Cause.Label() {
				minutes.Gaps, minutes.Messages = minutes.Gaps+c.Gaps, minutes.Messages+c.Messages
			}
		}
	}
	if minutes.Gaps != want.Gaps || minutes.Messages != want.Messages {
		t.Errorf("minutes have %d gaps of %d messages, counted %+v, want equal numbers", minutes.Gaps, minutes.Messages, want)
	}
}

// counted reports whether a gap of that cause was counted.
func counted(b *Bus, cause events.Cause) bool {
	for _, x := range b.Stats().Lost {
		if x.Cause == cause && x.Gaps > 0 {
			return true
		}
	}
	return false
}

// A subscription that reads too slowly counts its losses.
func TestSlowConsumerIsCounted(t *testing.T) {
	ctx := testContext(t)
	url := memURL(t)
	pubBus, subBus := openBus(t, Config{}, url), openBus(t, Config{ReceiveWindowBytes: 64 << 10}, url)
	sub := subscribe(t, subBus, "x", SlowConsumer(SlowGap))
	pub := publisher(t, pubBus, "x")
	wait(t, ctx, pub, 1)
	const n = 20_000
	for range n {
		publish(t, ctx, pub, "a message that is not read in time")
	}
	got, lost := 0, uint64(0)
	for got+int(lost) < n {
		_, err := sub.Next(ctx)
		var gap *GapError
		switch {
		case errors.As(err, &gap):
			lost += gap.Count
		case err != nil:
			t.Fatal(err)
		default:
			got++
		}
	}
	for _, x := range subBus.Stats().Lost {
		if x.Cause == events.CauseSlowConsumer && (x.Gaps == 0 || x.Messages != lost) || x.Cause != events.CauseSlowConsumer && x.Gaps > 0 {
			t.Errorf("counted losses %+v, want %d messages of cause %v alone", x, lost, events.CauseSlowConsumer)
		}
	}
	if lost == 0 {
		t.Error("nothing was lost")
	}
}
