package cli

import (
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// What pub says of its audience: who had vanished and is back, that nobody is left, that there is somebody again. A subscriber
// that vanished and was heard again is not one that vanished.
func TestAudience(t *testing.T) {
	const up, silent, left, end = events.SubscriberUp, events.SubscriberSilent, events.SubscriberLeft, events.Kind(0)
	type step struct {
		kind       events.Kind
		subscriber uint64
		says       string // in a line; empty: no line but of the event itself
		vanished   uint64
	}
	for name, steps := range map[string][]step{
		"one comes and goes":   {{up, 1, "", 0}, {left, 1, "no subscriber is left, the last was subscriber s1", 0}, {up, 2, "there is a subscriber again: subscriber s2", 0}, {left, 2, "no subscriber is left", 0}},
		"two come, one goes":   {{up, 1, "", 0}, {up, 2, "", 0}, {left, 1, "", 0}, {left, 2, "no subscriber is left", 0}},
		"vanished and back":    {{up, 1, "", 0}, {up, 2, "", 0}, {silent, 1, "", 1}, {silent, 2, "no subscriber is left", 2}, {up, 3, "there is a subscriber again", 2}, {up, 1, "subscriber s1, which had vanished, is back", 1}, {silent, 1, "", 2}},
		"back alone":           {{up, 1, "", 0}, {silent, 1, "no subscriber is left", 1}, {up, 1, "is back", 0}, {left, 1, "no subscriber is left", 0}},
		"vanished, then leave": {{up, 1, "", 0}, {silent, 1, "no subscriber is left", 1}, {left, 1, "", 0}},
		"at the end":           {{up, 1, "", 0}, {end, 0, "", 0}, {left, 1, "", 0}},
	} {
		var out strings.Builder
		p, there := pub{e: &env{console: newConsole(&out, "pub")}}, make(map[uint64]bool)
		for i, x := range steps {
			out.Reset()
			if x.kind == end {
				p.audience.end()
				continue
			}
			if delete(there, x.subscriber); x.kind == up {
				there[x.subscriber] = true
			}
			p.becomes(events.Event{Kind: x.kind, Subscriber: x.subscriber, Name: "s" + string(rune('0'+x.subscriber)), Relevant: true}, len(there))
			lines := out.String()
			if x.kind == silent {
				_, lines, _ = strings.Cut(lines, "\n") // its own
			}
			if !strings.Contains(lines, x.says) || x.says == "" && lines != "" || p.audience.vanished() != x.vanished {
				t.Errorf("%s, step %d: %q, want %q; %d have vanished, want %d", name, i, lines, x.says, p.audience.vanished(), x.vanished)
			}
		}
	}
}

// Who waits for subscribers and hears of none is told where to look, once, also that keys may differ.
func TestNoPeerIsDetected(t *testing.T) {
	var out strings.Builder
	p := pub{e: &env{console: newConsole(&out, "pub")}}
	e := events.Event{Kind: events.NoSubscriberHeard, Topics: []string{"md.x"}, Interface: "eth0"}
	if p.event(e); out.Len() > 0 {
		t.Errorf("who does not wait is told %q", out.String())
	}
	p.waiting.Store(true)
	if p.event(e); !strings.Contains(out.String(), "no subscriber of md.x detected on eth0") || !strings.Contains(out.String(), "keys=") {
		t.Errorf("who waits is told %q", out.String())
	}
}
