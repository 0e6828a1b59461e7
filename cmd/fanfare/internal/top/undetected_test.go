package top

import (
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/inspect"
)

// A publisher and a subscriber of one topic on two interfaces are two groups, and both are marked.
// A publisher that has no subscriber yet is not marked.
func TestUndetected(t *testing.T) {
	pub := inspect.Bus{Identity: inspect.Identity{ID: "b1", Name: "feed"}, Fabric: inspect.Fabric{Interfaces: []string{"d0"}}, NoSubscriber: 9,
		Publications: []inspect.Publication{{Address: "g"}}, Topics: []inspect.Topic{{Name: "x", Group: "g", Messages: 1}}}
	sub := inspect.Bus{Identity: inspect.Identity{ID: "b2", Name: "desk"}, Fabric: inspect.Fabric{Interfaces: []string{"d1"}}, NoPublisher: 9,
		Groups: []inspect.Group{{Address: "g", Topics: 1, Joined: true, Counters: inspect.Counters{"packets": 0}}}, Subscriptions: []inspect.Subscription{{Number: 1, Topics: []string{"x"}}}}
	observe := func(buses ...inspect.Bus) *Figures {
		return Between(Observation{}, Observation{noon, []inspect.Seen{{Snapshot: &inspect.Snapshot{Time: noon, Process: inspect.Process{PID: 1, Program: "app"}, Buses: buses}}}})
	}
	f := observe(pub, sub)
	if l, text := f.worst(); l != warn || !strings.HasPrefix(text, "no subscriber of x was detected on d0 for 9 s; desk in app[1] subscribes on d1") {
		t.Errorf("worst line is %d %q, want %d and no subscriber of x on d0, but desk on d1", l, text, warn)
	}
	for i, want := range []string{"other is on d1", "other is on d0"} {
		if r := f.table(0).rows[i]; r.level != warn || r.cells[7].text != want {
			t.Errorf("row %d is %d %q, want %d %q", i, r.level, r.cells[7].text, warn, want)
		}
	}
	for _, g := range f.Groups {
		if len(g.Publishers)*len(g.Subscribers) != 0 {
			t.Errorf("group %s of %s joins %v and %v, want one side empty", g.Group, g.Interface, g.Publishers, g.Subscribers)
		}
	}
	if s := f.Buses[0].State + " " + f.Buses[1].State; s != "unheard unheard" {
		t.Errorf(`states %s, want "unheard unheard"`, s)
	}
	f = observe(pub)
	if l, text := f.worst(); l != calm || text != "no subscriber of x was detected on d0 for 9 s" {
		t.Errorf("worst line is %d %q, want %d and no subscriber of x on d0 for 9 s", l, text, calm)
	}
	if r := f.table(0).rows[0]; r.level != calm || r.cells[7].text != "no subscriber" {
		t.Errorf(`row is %d %q, want %d "no subscriber"`, r.level, r.cells[7].text, calm)
	}
}
