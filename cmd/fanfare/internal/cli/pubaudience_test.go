package cli

import (
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// The messages of pub about its audience: a silent subscriber that is back, the last one that leaves,
// and the next one that comes. A silent subscriber that answered again no longer counts as silent.
func TestAudience(t *testing.T) {
	const up, silent, left, end = events.SubscriberUp, events.SubscriberSilent, events.SubscriberLeft, events.Kind(0)
	type step struct {
		kind       events.Kind
		subscriber uint64
		wantText   string // expected in a line; empty: only the line of the event itself
		vanished   uint64
	}
	for name, steps := range map[string][]step{
		"one comes and goes":  {{up, 1, "", 0}, {left, 1, "no subscriber is left; the last was subscriber s1", 0}, {up, 2, "a subscriber has come: subscriber s2", 0}, {left, 2, "no subscriber is left", 0}},
		"two come, one goes":  {{up, 1, "", 0}, {up, 2, "", 0}, {left, 1, "", 0}, {left, 2, "no subscriber is left", 0}},
		"silent and back":     {{up, 1, "", 0}, {up, 2, "", 0}, {silent, 1, "", 1}, {silent, 2, "no subscriber is left", 2}, {up, 3, "a subscriber has come", 2}, {up, 1, "subscriber s1, which had stopped answering, is back", 1}, {silent, 1, "", 2}},
		"back alone":          {{up, 1, "", 0}, {silent, 1, "no subscriber is left", 1}, {up, 1, "is back", 0}, {left, 1, "no subscriber is left", 0}},
		"silent, then leaves": {{up, 1, "", 0}, {silent, 1, "no subscriber is left", 1}, {left, 1, "", 0}},
		"at the end":          {{up, 1, "", 0}, {end, 0, "", 0}, {left, 1, "", 0}},
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
			p.reportEvent(events.Event{Kind: x.kind, Subscriber: events.ID(x.subscriber), Name: "s" + string(rune('0'+x.subscriber)), Relevant: true}, len(there))
			lines := out.String()
			if x.kind == silent {
				_, lines, _ = strings.Cut(lines, "\n") // after the line of the event
			}
			if !strings.Contains(lines, x.wantText) || x.wantText == "" && lines != "" || p.audience.vanished() != x.vanished {
				t.Errorf("%s, step %d: %q, want %q; %d silent, want %d", name, i, lines, x.wantText, p.audience.vanished(), x.vanished)
			}
		}
	}
}

// A silent subscriber that is back is named as before, although its first status has no name.
func TestAudienceKeepsNames(t *testing.T) {
	var out strings.Builder
	p := pub{e: &env{console: newConsole(&out, "pub"), stdout: &out}}
	p.json = true
	p.reportEvent(events.Event{Kind: events.SubscriberSilent, Subscriber: 1, Name: "subB", Relevant: true}, 0)
	out.Reset()
	p.reportEvent(events.Event{Kind: events.SubscriberUp, Subscriber: 1}, 1)
	for _, want := range []string{"subscriber subB, which had stopped answering, is back", `"name":"subB"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got %q, want %q in it", out.String(), want)
		}
	}
}

// pub that waits for subscribers and detects none suggests once what to check, including keys.
func TestNoSubscriberAdvice(t *testing.T) {
	var out strings.Builder
	p := pub{e: &env{console: newConsole(&out, "pub")}}
	e := events.Event{Kind: events.NoSubscriberHeard, Topics: []string{"md.x"}, Interface: "eth0"}
	if p.event(e); out.Len() > 0 {
		t.Errorf("without waiting, pub printed %q, want nothing", out.String())
	}
	p.waiting.Store(true)
	if p.event(e); !strings.Contains(out.String(), "no subscriber of md.x detected on eth0") || !strings.Contains(out.String(), "keys=") {
		t.Errorf("while waiting, pub printed %q, want no subscriber on eth0 and advice about keys=", out.String())
	}
}
