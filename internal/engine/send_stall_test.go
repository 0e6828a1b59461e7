package engine

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// A publication reports the subscriber that blocks it after 1 s, 2 s, 4 s, …, another subscriber anew, and the end once.
func TestStallsAreReported(t *testing.T) {
	const s = time.Second
	unblocked := events.Hold{}
	by := func(id events.ID, d time.Duration) events.Hold { return events.Hold{Subscriber: id, For: d, Behind: 7} }
	type step struct {
		at   time.Duration
		held events.Hold
		want events.Kind
		id   uint64
		d    time.Duration
	}
	const none = events.Kind(255)
	for name, steps := range map[string][]step{
		"short": {{s, by(1, s/2), none, 0, 0}, {2 * s, unblocked, none, 0, 0}},
		"long": {
			{s, by(1, s), events.PublisherStalled, 1, s}, {1500 * time.Millisecond, by(1, 1500*time.Millisecond), none, 0, 0},
			{2 * s, by(1, 2*s), events.PublisherStalled, 1, 2 * s}, {3 * s, unblocked, events.PublisherResumed, 1, 3 * s}, {4 * s, unblocked, none, 0, 0},
		},
		"another subscriber": {
			{s, by(1, s), events.PublisherStalled, 1, s}, {1100 * time.Millisecond, by(2, s/2), none, 0, 0},
			{1600 * time.Millisecond, by(2, s), events.PublisherStalled, 2, s}, {5 * s, unblocked, events.PublisherResumed, 2, 5 * s},
		},
		"short progress": {
			{s, by(1, s), events.PublisherStalled, 1, s}, {2 * s, by(1, s/2), none, 0, 0}, {2500 * time.Millisecond, by(1, s), events.PublisherStalled, 1, s},
		},
		"twice": {
			{s, by(1, s), events.PublisherStalled, 1, s}, {2 * s, unblocked, events.PublisherResumed, 1, 2 * s},
			{9 * s, by(1, s), events.PublisherStalled, 1, s}, {10 * s, unblocked, events.PublisherResumed, 1, 2 * s},
		},
	} {
		var x stalls
		for i, st := range steps {
			e, ok := x.note(reliable.Instant(time.Hour+st.at), st.held, st.held.Subscriber != 0)
			if ok != (st.want != none) || ok && (e.Kind != st.want || e.Subscriber != events.ID(st.id) || e.For != st.d) {
				t.Errorf("%s, step %d: reported %v, event %+v, want kind %v, subscriber %d and %v", name, i, ok, e, st.want, st.id, st.d)
			}
		}
	}
}

// A stall has the line for its reason.
func TestLineOfAStall(t *testing.T) {
	for fault, want := range map[error]*report.Line{nil: &report.PublisherStalled, reliable.ErrUnreached: &report.StalledByLoss, events.ErrBackPressure: &report.StalledBySilence} {
		if e := heldEvent(events.PublisherStalled, events.Hold{Fault: fault}); lineOf(&e) != want {
			t.Errorf("%v: line %q, want %q", fault, lineOf(&e).Text, want.Text)
		}
	}
}

// A cursor that does not move and blocks its stream is reported. A cursor that reads, or blocks nothing, is not.
func TestUnreadIsReported(t *testing.T) {
	const s = time.Second
	type step struct {
		at    time.Duration
		pos   uint64
		holds bool
		want  bool
	}
	for name, steps := range map[string][]step{
		"reads":                     {{0, 1, true, false}, {s - 1, 2, true, false}, {2*s - 2, 3, true, false}},
		"does not move":             {{0, 1, true, false}, {s, 1, true, true}, {2*s - 1, 1, true, false}, {2 * s, 1, true, true}},
		"blocks nothing":            {{0, 1, false, false}, {s, 1, false, false}, {9 * s, 1, false, false}},
		"reads again":               {{0, 1, true, false}, {s, 1, true, true}, {2 * s, 2, true, false}, {3*s - 1, 2, true, false}, {3 * s, 2, true, true}},
		"blocks nothing in between": {{0, 1, true, false}, {s / 2, 1, false, false}, {s, 1, true, false}, {2 * s, 1, true, true}},
	} {
		var x unread
		for i, st := range steps {
			if _, due := x.note(reliable.Instant(time.Hour+st.at), st.pos, st.holds); due != st.want {
				t.Errorf("%s, step %d: reported %v, want %v", name, i, due, st.want)
			}
		}
	}
}

// The log names a member that does not keep up, with its rate, after 2 s, 4 s, …, and another member at once. All groups
// together log at most one line in 10 s.
func TestTrailingMemberIsLogged(t *testing.T) {
	var text bytes.Buffer
	_, l := newLoop(t, Config{})
	p := &Publication{l: &Loop{journal: newJournal(slog.New(slog.NewTextHandler(&text, nil)), newClock()), t: l.t}}
	other := &Publication{l: p.l} // of another group
	for i, step := range []struct {
		receiver uint64
		want     string
	}{{1, "for=2s"}, {1, "for=4s"}, {1, ""}, {1, "for=8s"}, {2, "for=2s"}} {
		text.Reset()
		p.l.journal.clock.start = p.l.journal.clock.start.Add(-sameRemark)
		for _, p := range []*Publication{p, other} {
			p.stalls.trails.note(reliable.Instant(time.Duration(2*i)*time.Second), reliable.Trailing{
				Hold:     events.Hold{Subscriber: events.ID(step.receiver), Name: "desk", Address: "10.0.0.2:9", For: 2 * time.Second, Behind: 7},
				Received: 850, Sent: 1700})
			p.emitStalls()
		}
		if step.want == "" {
			if text.Len() > 0 {
				t.Errorf("step %d: logged %s, want nothing", i, &text)
			}
			continue
		}
		if n := strings.Count(text.String(), "\n"); n != 1 {
			t.Errorf("step %d: %d lines, want 1", i, n)
		}
		for _, want := range []string{step.want, "level=WARN", "name=desk", "address=10.0.0.2:9", "received_packets_per_s=850", "published_packets_per_s=1700", "behind_packets=7"} {
			if !strings.Contains(text.String(), want) {
				t.Errorf("step %d: logged %q, want %s in it", i, &text, want)
			}
		}
	}
}
