package cli

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/report"

	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

func TestSchedule(t *testing.T) {
	p := schedule{perSecond: 1000}
	now := time.Unix(1000, 0)
	total := 0
	for range 1000 { // every 10 ms for 10 s
		n := p.due(now, 64)
		p.sent += float64(n)
		total += n
		now = now.Add(10 * time.Millisecond)
	}
	if total < 9990 || total > 10_000 {
		t.Errorf("%d messages in 10 s at 1000/s, want about 10000", total)
	}
	now = now.Add(time.Hour) // the time of a pause is not made up for
	if n := p.due(now, 1000); n > 1 {
		t.Errorf("%d messages at once after a pause", n)
	}
	slow := schedule{perSecond: 0.5}
	if n := slow.due(now, 5); n != 1 {
		t.Errorf("%d messages of a slow schedule are due at first, want 1", n)
	}
	slow.sent++
	if n := slow.due(now.Add(time.Second), 5); n != 0 {
		t.Errorf("%d messages are due half way to the second, want 0", n)
	}
	if n := slow.due(now.Add(2*time.Second), 5); n != 1 {
		t.Errorf("%d messages are due at the second, want 1", n)
	}
}

func TestConsole(t *testing.T) {
	var b bytes.Buffer
	c := newConsole(&b, "fanfare sub")
	c.status("not on a terminal")
	c.line("first %d\nand still the same line", 1)
	c.tty = true
	c.status("10 messages")
	c.line("between")
	c.status("20 messages")
	c.clear()
	c.clear()
	want := "fanfare sub: first 1 and still the same line\n" +
		"10 messages\r\x1b[Kfanfare sub: between\n20 messages\r\x1b[K"
	if b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

func TestLogHandler(t *testing.T) {
	var b bytes.Buffer
	h := &logHandler{console: newConsole(&b, "fanfare sub"), level: slog.LevelWarn, held: true}
	log := slog.New(h)
	log.Info("not of interest")
	log.Warn("small buffer", "granted_bytes", 4096, "asked_bytes", 8192)
	if b.Len() != 0 {
		t.Errorf("%q was written although lines are held back", b.String())
	}
	h.release(true, false, subWords)
	log.Warn(report.PublisherLost.Text, "publisher", 7)
	log.Warn("packets were dropped by this host", "cause", "socket_overflow")
	log.Error("broken", "err", "cause")
	h.level = slog.LevelDebug // with -v no line is dropped
	log.Warn(report.PublisherLost.Text, "publisher", 7)
	h.level = slog.LevelWarn
	h.release(true, true, subWords)
	log.Warn("not with -q")
	want := "fanfare sub: warning: small buffer (granted_bytes=4096, asked_bytes=8192)\n" +
		"fanfare sub: warning: packets were dropped by this host (cause=socket_overflow)\n" +
		"fanfare sub: error: broken (err=cause)\n" +
		"fanfare sub: warning: " + report.PublisherLost.Text + " (publisher=7)\n"
	if b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

func TestNumbers(t *testing.T) {
	for _, c := range []struct {
		x    float64
		want string
	}{{0, "0"}, {999, "999"}, {9994, "9994"}, {9995, "10 k"}, {812_345, "812 k"}, {999_400, "999 k"}, {999_500, "1.00 M"}, {12_345_678, "12.35 M"}} {
		if got := si(c.x); got != c.want {
			t.Errorf("si(%v) = %q, want %q", c.x, got, c.want)
		}
	}
	if got := summary("5 messages", time.Millisecond, 5, 5); got != "5 messages" {
		t.Errorf("summary of a very short time is %q, want no rate", got)
	}
}

// The tally of sub: events of publishers, and when all of them have ended.
func TestTally(t *testing.T) {
	const a, b = pubsub.PublisherID(1), pubsub.PublisherID(2)
	type step struct {
		kind string // "message", "gap" or an event
		id   pubsub.PublisherID
		// for an event:
		group string
		epoch uint64
		done  bool
	}
	kinds := map[string]events.Kind{
		"up": events.PublisherUp, "ended": events.PublisherEnded, "lost": events.PublisherLost, "restarted": events.PublisherRestarted, "duplicate": events.DuplicateName, "dictionary": events.DictionaryMissing, "new": 250,
	}
	for _, c := range []struct {
		name       string
		steps      []step
		incomplete bool
	}{
		{"one publisher", []step{{"up", a, "g", 1, false}, {"message", a, "", 0, false}, {"ended", a, "g", 1, true}}, false},
		{"foreign", []step{{"up", b, "g", 1, false}, {"ended", b, "g", 1, false}}, false},
		{"foreign lost", []step{{"up", a, "g", 1, false}, {"message", a, "", 0, false}, {"up", b, "g", 1, false}, {"lost", b, "g", 1, false}, {"ended", a, "g", 1, true}}, false},
		{"ours lost", []step{{"up", a, "g", 1, false}, {"message", a, "", 0, false}, {"lost", a, "g", 1, true}}, true},
		{"lost and back", []step{
			{"up", a, "g", 1, false}, {"message", a, "", 0, false}, {"up", b, "g", 1, false}, {"message", b, "", 0, false},
			{"lost", a, "g", 1, false}, {"up", a, "g", 1, false}, {"ended", b, "g", 1, false}, {"ended", a, "g", 1, true},
		}, false},
		{"two groups", []step{
			{"up", a, "g", 1, false}, {"up", a, "h", 1, false}, {"message", a, "", 0, false},
			{"ended", a, "g", 1, false}, {"ended", a, "h", 1, true},
		}, false},
		{"restart detected first", []step{
			{"up", a, "g", 1, false}, {"message", a, "", 0, false}, {"up", a, "g", 2, false},
			{"restarted", a, "g", 1, false}, {"ended", a, "g", 2, true},
		}, true},
		{"two of one name", []step{
			{"up", a, "g", 1, false}, {"message", a, "", 0, false}, {"up", a, "g", 2, false}, {"duplicate", a, "g", 2, false},
			{"ended", a, "g", 1, false}, {"ended", a, "g", 2, true},
		}, false},
		{"rolled back", []step{
			{"up", a, "g", 1, false}, {"message", a, "", 0, false}, {"up", a, "g", 2, false}, {"restarted", a, "g", 2, false},
			{"ended", a, "g", 1, true},
		}, true},
		{"an event that does not end it", []step{
			{"up", a, "g", 1, false}, {"message", a, "", 0, false}, {"dictionary", a, "g", 1, false}, {"new", a, "g", 1, false}, {"ended", a, "g", 1, true},
		}, false},
		{"only a gap", []step{{"up", a, "g", 1, false}, {"gap", a, "", 0, false}, {"ended", a, "g", 1, true}}, false},
	} {
		var x tally
		x.init(nil)
		for i, s := range c.steps {
			done := false
			switch s.kind {
			case "message":
				x.message(s.id, new(pubsub.Message))
			case "gap":
				x.gap(&pubsub.GapError{Topic: "x", Count: 1, Publisher: s.id})
			default:
				_, done = x.event(&pubsub.PublisherEvent{Kind: kinds[s.kind], Publisher: s.id, Group: s.group, Epoch: events.ID(s.epoch)})
			}
			if done != s.done {
				t.Errorf("%s: step %d (%s): done is %v, want %v", c.name, i, s.kind, done, s.done)
			}
		}
		if x.incomplete() != c.incomplete {
			t.Errorf("%s: incomplete is %v, want %v", c.name, x.incomplete(), c.incomplete)
		}
	}
	var x tally
	x.init(nil)
	for i := range maxGapsListed + 10 {
		x.gap(&pubsub.GapError{Topic: "x", First: uint64(i * 10), Count: 3})
	}
	if len(x.Gaps) != maxGapsListed || x.Lost != 3*(maxGapsListed+10) || x.LostUnknown {
		t.Errorf("%d gaps listed, %d messages lost, want %d and %d", len(x.Gaps), x.Lost, maxGapsListed, 3*(maxGapsListed+10))
	}
	if fmt.Sprint(x.Gaps[1]) != fmt.Sprint(jsonGap{Topic: "x", First: 10, Count: 3, Cause: "none", Publisher: "0000000000000000"}) {
		t.Errorf("gap %+v, want 3 messages of x from number 10, cause none", x.Gaps[1])
	}
}
