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

// lineCounter is a log handler that counts all lines, and those with a text.
type lineCounter struct {
	all, with *atomic.Int64
	text      string
}

func (c lineCounter) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }
func (c lineCounter) Handle(_ context.Context, r slog.Record) error {
	c.all.Add(1)
	if strings.Contains(r.Message, c.text) {
		c.with.Add(1)
	}
	return nil
}
func (c lineCounter) WithAttrs([]slog.Attr) slog.Handler { return c }
func (c lineCounter) WithGroup(string) slog.Handler      { return c }

// forge sends n heartbeats of a publisher on l's group 0, each with another epoch, and waits until l has handled them.
func forge(t *testing.T, l *Loop, publisher uint64, n int) stats.ReceiverPackets {
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
	var st stats.ReceiverPackets
	read := func() { st = l.groups[0].r.Stats() }
	l.do(read)
	for i := range n {
		b := wire.AppendHeartbeat(nil, wire.Header{GroupTag: wire.GroupTag(l.t.GroupAddress(0)), Publisher: events.ID(publisher), Epoch: events.ID(i + 1)},
			&wire.Heartbeat{SentAt: 1, PacketSize: 1000, Interval: time.Second, StatusInterval: time.Second})
		wire.SetChecksum(b)
		out := transport.Outbound{Data: b, Stride: len(b), Count: 1, Lens: []uint16{uint16(len(b))}}
		handled := func() uint64 { return st.Streams + st.StreamsRefused }
		before := handled()
		if sent, err := tx.Send(&out); err != nil || sent != 1 {
			t.Fatalf("Send returned %d and %v, want 1 packet", sent, err)
		}
		for limit := time.Now().Add(time.Minute); handled() == before; {
			if err := l.do(read); err != nil || time.Now().After(limit) {
				t.Fatalf("heartbeat %d was not handled within a minute: error %v, counters %+v", i, err, st)
			}
		}
	}
	return st
}

func TestLogIsLimited(t *testing.T) {
	for _, c := range []struct {
		name, text string
		publisher  uint64
		max        int64
	}{
		// Each heartbeat is of another instance.
		{"restarts", "publisher up", 13, linesAtOnce + 60},
		// The 1st, 2nd, 4th … heartbeat is logged.
		{"namesakes", "under this bus's name", 77, linesAtOnce + 60},
	} {
		t.Run(c.name, func(t *testing.T) {
			var all, with atomic.Int64
			_, l := newLoop(t, Config{Instance: events.Instance{Publisher: 77}, Logger: slog.New(lineCounter{&all, &with, c.text})})
			subscribeTo(t, l, TopicName{Name: "x"}, policyAuto, handlerFuncs{other: func(*Delivery) {}})
			const n = 1000
			if st := forge(t, l, c.publisher, n); st.Streams+st.StreamsRefused != n {
				t.Errorf("counters %+v, want %d streams opened or refused", st, n)
			}
			if with.Load() == 0 || all.Load() > c.max {
				t.Errorf("%d lines, want at most %d; %d with %q, want some", all.Load(), c.max, with.Load(), c.text)
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
		t.Errorf("%d lines at once, want %d", lines, linesAtOnce)
	}
	if n, ok := l.allow(at.Add(lineEvery)); !ok || n != 100-linesAtOnce {
		t.Errorf("a second later: allowed %v, %d lines left out, want true and %d", ok, n, 100-linesAtOnce)
	}
	if _, ok := l.allow(at.Add(lineEvery)); ok {
		t.Error("a second line in that second is allowed, want it left out")
	}
	if n, ok := l.allow(at.Add(time.Hour)); !ok || n != 1 {
		t.Errorf("an hour later: allowed %v, %d lines left out, want true and 1", ok, n)
	}
	// After the hour, no more lines are allowed at once than at first.
	lines = 1
	for range 100 {
		if _, ok := l.allow(at.Add(time.Hour)); ok {
			lines++
		}
	}
	if lines != linesAtOnce {
		t.Errorf("%d lines at once after an hour, want %d", lines, linesAtOnce)
	}
	if n := testing.AllocsPerRun(100, func() { l.allow(at) }); n != 0 {
		t.Errorf("%v allocations a line, want 0", n)
	}
}
