package engine

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/mem"
)

// lines counts what is logged, and how much of it holds a text.
type lines struct {
	all, with *atomic.Int64
	text      string
}

func (c lines) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }
func (c lines) Handle(_ context.Context, r slog.Record) error {
	c.all.Add(1)
	if strings.Contains(r.Message, c.text) {
		c.with.Add(1)
	}
	return nil
}
func (c lines) WithAttrs([]slog.Attr) slog.Handler { return c }
func (c lines) WithGroup(string) slog.Handler      { return c }

// forge sends n heartbeats of a publisher on l's group 0, each of another epoch, and
// waits until l has taken them.
func forge(t *testing.T, l *Loop, publisher uint64, n int) stats.Receiver {
	t.Helper()
	tr, err := mem.Open(mem.Config{Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	tx, err := tr.NewSender(0)
	if err != nil {
		t.Fatal(err)
	}
	var st stats.Receiver
	look := func() { st = l.groups[0].r.Stats() }
	l.do(look)
	for i := range n {
		b := wire.AppendHeartbeat(nil, wire.Header{GroupTag: wire.GroupTag(l.t.GroupAddress(0)), Publisher: events.ID(publisher), Epoch: events.ID(i + 1)},
			&wire.Heartbeat{SentAt: 1, PacketSize: 1000, Interval: time.Second, StatusInterval: time.Second})
		wire.SetChecksum(b)
		out := transport.Outbound{Data: b, Stride: len(b), Count: 1, Lens: []uint16{uint16(len(b))}}
		taken := func() uint64 { return st.Streams + st.StreamsRefused }
		before := taken()
		if sent, err := tx.Send(&out); err != nil || sent != 1 {
			t.Fatalf("sent %d: %v", sent, err)
		}
		for limit := time.Now().Add(time.Minute); taken() == before; {
			if err := l.do(look); err != nil || time.Now().After(limit) {
				t.Fatalf("heartbeat %d was not taken: %v, %+v", i, err, st)
			}
		}
	}
	return st
}

func TestLogIsLimited(t *testing.T) {
	for _, c := range []struct {
		name, text string
		publisher  uint64
		most       int64
	}{
		// Each is another instance, up to half of all streams.
		{"restarts", "publisher up", 13, linesAtOnce + 60},
		// Logged at the 1st, 2nd, 4th … of them.
		{"namesakes", "under this bus's name", 77, linesAtOnce + 60},
	} {
		t.Run(c.name, func(t *testing.T) {
			var all, with atomic.Int64
			_, l := newLoop(t, Config{Instance: events.Instance{Publisher: 77}, Logger: slog.New(lines{&all, &with, c.text})})
			subscribeTo(t, l, TopicName{Name: "x"}, policyAuto, handlerFuncs{other: func(*Delivery) {}})
			const n = 1000
			if st := forge(t, l, c.publisher, n); st.Streams+st.StreamsRefused != n {
				t.Errorf("of %d forged heartbeats: %+v", n, st)
			}
			if with.Load() == 0 || all.Load() > c.most {
				t.Errorf("%d forged heartbeats wrote %d lines into the log, %d as expected", n, all.Load(), with.Load())
			}
		})
	}
}

func TestLogLimiter(t *testing.T) {
	l := newLogLimiter(linesAtOnce)
	at := reliable.Instant(time.Second)
	lines := 0
	for range 100 {
		if _, ok := l.allow(at); ok {
			lines++
		}
	}
	if lines != linesAtOnce {
		t.Errorf("%d lines at once", lines)
	}
	if n, ok := l.allow(at.Add(lineEvery)); !ok || n != 100-linesAtOnce {
		t.Errorf("a second later: %v, %d left out", ok, n)
	}
	if _, ok := l.allow(at.Add(lineEvery)); ok {
		t.Error("two lines in a second")
	}
	if n, ok := l.allow(at.Add(time.Hour)); !ok || n != 1 {
		t.Errorf("an hour later: %v, %d left out", ok, n)
	}
	// Of the hour, no more is saved up than at first.
	lines = 1
	for range 100 {
		if _, ok := l.allow(at.Add(time.Hour)); ok {
			lines++
		}
	}
	if lines != linesAtOnce {
		t.Errorf("%d lines at once after an hour", lines)
	}
	if n := testing.AllocsPerRun(100, func() { l.allow(at) }); n != 0 {
		t.Errorf("%v allocations a line", n)
	}
}
