package top

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// Permanent losses, present or imminent, come first, however many packets are dropped.
func TestWorstOfReaders(t *testing.T) {
	app := func(change func(*inspect.Bus)) Observation {
		b := inspect.Bus{Identity: inspect.Identity{ID: "b"}, Causes: []stats.CauseCount{{Cause: "injected", Dropped: 1e6}}}
		change(&b)
		return Observation{noon, []inspect.Seen{{Snapshot: &inspect.Snapshot{Time: noon, Process: inspect.Process{PID: 4, Program: "app"}, Buses: []inspect.Bus{b}}}}}
	}
	lost := func(ago time.Duration) func(*inspect.Bus) {
		return func(b *inspect.Bus) {
			b.Losses = &inspect.LossRecord{Losses: []inspect.Loss{{Cause: "slow_consumer", Last: noon.Add(-ago), Subscription: "md.a", Messages: 29930}}}
		}
	}
	for _, c := range []struct {
		name   string
		change func(*inspect.Bus)
		level  level
		want   string
	}{
		{"loses permanently", lost(time.Second), alarm, "lost permanently within a minute: 29930 messages of md.a at app[4], cause slow_consumer"},
		{"has lost", lost(time.Hour / 2), calm, ""},
		{"a group that is not joined", func(b *inspect.Bus) {
			b.Groups = []inspect.Group{{Address: "g", Topics: 1}}
			b.Events = []inspect.Event{{Kind: "group_lost", Group: "g", Error: "eth0 is down"}, {Kind: "group_lost", Group: "h", Error: "other"}}
		}, alarm, "nothing is received in group g: eth0 is down"},
		{"a publisher that can send nothing", func(b *inspect.Bus) {
			b.Publications = []inspect.Publication{{Address: "g", Stuck: 12}, {Address: "h", Stuck: 0.9}}
			b.Topics = []inspect.Topic{{Name: "md.b", Group: "h"}, {Name: "md.a", Group: "g"}}
			b.Events = []inspect.Event{{Kind: "cannot_send", Time: noon, Behind: 7, Error: "interface eth0 is down"}}
		}, alarm, "app[4]: cannot send md.a for 12s, 7 packets waiting: interface eth0 is down"},
		{"a subscriber that is steadily too slow", func(b *inspect.Bus) {
			b.Publications = []inspect.Publication{{Address: "g", Subscribers: []inspect.Subscriber{{Name: "risk", Behind: 5698}}}}
		}, warn, "slow: risk, subscriber of app[4]: 5698 packets behind, room for 0 more, reads too slowly"},
		{"a reader that is steadily too slow", func(b *inspect.Bus) {
			b.Subscriptions = []inspect.Subscription{{Topics: []string{"md.a"}, Pending: 5698, Publishers: []inspect.SubscriptionFeed{{Lag: 5698, Window: 5698}}}}
		}, warn, "slow: the reader of md.a in app[4] has 5698 packets not read"},
		{"a bus that cannot be heard", func(b *inspect.Bus) {
			b.Events = []inspect.Event{{Kind: "config_mismatch", Time: noon.Add(-time.Second), Text: "config mismatch: groups"}}
		}, warn, "app[4]: config mismatch: groups"},
		{"a bus that differs in what is harmless", func(b *inspect.Bus) {
			b.Events = []inspect.Event{{Kind: "config_differs", Time: noon.Add(-time.Second), Text: "config differs: packet size"}}
		}, calm, ""},
		{"two buses of one name", func(b *inspect.Bus) {
			b.Events = []inspect.Event{{Kind: "duplicate_name", Time: noon.Add(-time.Second), Text: "duplicate name: x"}}
		}, warn, "app[4]: duplicate name: x"},
	} {
		level, got := Between(app(func(*inspect.Bus) {}), app(c.change)).worst()
		if level != c.level || !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: worst line is %d %q, want %d %q", c.name, level, got, c.level, c.want)
		}
	}
}

// Events of a peer in several groups are one row, with its name; JSON has each.
func TestEventsOfGroups(t *testing.T) {
	const id = "6afcf99b86e25b2d"
	b := inspect.Bus{Groups: []inspect.Group{{Streams: []inspect.Stream{{Publisher: id, Name: "pubA"}}}}}
	for _, g := range []string{"a:1", "b:1", "c:1", "c:1"} {
		b.Events = append(b.Events, inspect.Event{Kind: "publisher_up", Publisher: id, Group: g, Text: "publisher up: " + id + " (group " + g + ")"})
	}
	b.Events = append(b.Events, inspect.Event{Kind: "group_failed", Group: "d:1", Error: "x", Text: "group failed: d:1: x"}, inspect.Event{Kind: "group_failed", Group: "e:1", Error: "x", Text: "group failed: e:1: x"})
	f := Between(Observation{}, Observation{noon, []inspect.Seen{{Snapshot: &inspect.Snapshot{Buses: []inspect.Bus{b}}}}})
	rows, _ := f.counts()
	var got []string
	for _, r := range f.eventTable().rows {
		got = append(got, r.cells[1].text+" "+r.cells[2].text)
	}
	if want := "[4 publisher up: pubA (3 groups) 2 group failed: 2 groups: x]"; fmt.Sprint(got) != want || len(f.Events) != 5 || rows[7] != 2 {
		t.Errorf("rows %v, want %s; %d events, want 5", got, want, len(f.Events))
	}
}

// Advice on a cause depends on the bus: a socket with the buffer that it requested needs a larger request.
func TestLossesSayWhatToDoHere(t *testing.T) {
	b := inspect.Bus{Fabric: inspect.Fabric{Buffers: []inspect.Buffers{{ReceiveAsked: 65536, ReceiveGranted: 65536}}}, Causes: []stats.CauseCount{{Cause: "socket_overflow", Dropped: 7}}}
	f := Between(Observation{}, Observation{noon, []inspect.Seen{{Snapshot: &inspect.Snapshot{Time: noon, Process: inspect.Process{PID: 4, Program: "app"}, Host: inspect.Host{ReceiveBufferMax: 212992}, Buses: []inspect.Bus{b}}}}})
	if want := "Request a larger receive buffer than the current 65536 bytes"; !strings.HasPrefix(f.Losses[0].Do, want) {
		t.Errorf("advice %q, want %q", f.Losses[0].Do, want)
	}
}
