package top

import (
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/inspect"
)

// A subscriber that does not answer is silent. One that was released for that is gone for a minute.
// Both are marked, also in the topic's row and in the first line.
func TestSubscriberGoes(t *testing.T) {
	observe := func(change func(*inspect.Bus)) *Figures {
		b := inspect.Bus{Identity: inspect.Identity{ID: "b", Name: "feed"}, Topics: []inspect.Topic{{Name: "md.a", Group: "g", Messages: 1}}, Publications: []inspect.Publication{{Address: "g"}}}
		change(&b)
		return Between(Observation{}, Observation{noon, []inspect.Seen{{Snapshot: &inspect.Snapshot{Time: noon, Process: inspect.Process{PID: 4, Program: "app"}, Buses: []inspect.Bus{b}}}}})
	}
	silentFor := func(ago time.Duration) func(*inspect.Bus) {
		return func(b *inspect.Bus) {
			b.Events = []inspect.Event{{Kind: "subscriber_silent", Time: noon.Add(-ago), Group: "g", Name: "risk", For: 1.5, Behind: 99, Text: "subscriber silent: risk"}}
		}
	}
	for _, c := range []struct {
		name         string
		change       func(*inspect.Bus)
		state, topic string
		line         string
	}{
		{"well", func(b *inspect.Bus) { b.Publications[0].Subscribers = []inspect.Subscriber{{Name: "risk", Heard: 0.9}} }, "ok", "ok", ""},
		{"stopped", func(b *inspect.Bus) {
			b.Publications[0].Subscribers = []inspect.Subscriber{{Name: "risk", Heard: 0.9, Unanswered: 0.6, Room: 7}}
		}, "silent", "1 slow", "silent: risk, subscriber of app[4]: 0 packets behind, room for 7 more, has sent nothing for 900ms"},
		{"given up", silentFor(8 * time.Second), "gone", "1 gone", "gone: risk, subscriber of app[4]: fell silent, was 99 packets behind, and publishers no longer wait for it: last packet 9.5s ago"},
		{"long ago", silentFor(2 * time.Minute), "", "ok", ""},
	} {
		f := observe(c.change)
		if r := f.table(0).rows[0]; r.cells[7].text != c.topic || (r.level == calm) != (c.topic == "ok") {
			t.Errorf("%s: the topic is %q, %d, want %q", c.name, r.cells[7].text, r.level, c.topic)
		}
		rows := f.table(2).rows
		if c.state == "" {
			if len(rows) > 0 {
				t.Errorf("%s: rows %+v, want none", c.name, rows)
			}
		} else if len(rows) != 1 || rows[0].cells[3].text != c.state || (rows[0].level == calm) != (c.state == "ok") {
			t.Errorf("%s: rows %+v, want one with state %q, calm: %v", c.name, rows, c.state, c.state == "ok")
		}
		if l, text := f.worst(); !strings.HasPrefix(text, c.line) || c.line == "" && text != "" || (l == calm) != (c.line == "") {
			t.Errorf("%s: worst line is %d %q, want %q", c.name, l, text, c.line)
		}
	}
}
