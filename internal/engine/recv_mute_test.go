package engine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// muter notes what it is told, and keeps out as many as it can.
type muter struct {
	transport.Transport
	can  int
	told []string
}

func (m *muter) Mute(group int, from transport.Peer, head transport.Head) bool {
	if m.can == 0 {
		return false
	}
	m.can--
	m.told = append(m.told, fmt.Sprintf("out %d %d %x", group, from, head.Value[16]))
	return true
}

func (m *muter) Unmute(group int, from transport.Peer, head transport.Head) {
	m.can++
	m.told = append(m.told, fmt.Sprintf("in %d %d %x", group, from, head.Value[16]))
}

// A stream that several groups of one index follow is kept out while one of them wishes it and none needs it.
// docs/protocol.md §23.12.
func TestMuted(t *testing.T) {
	const none, out, in = reliable.WishNone, reliable.WishOut, reliable.WishIn
	m := &muter{can: 2}
	x := newMuted(m, false)
	g, h := new(group), new(group)
	a, b, c := mute{1, 7, 0x11, 5}, mute{1, 8, 0x22, 5}, mute{2, 7, 0x11, 5}
	for i, step := range []struct {
		of   mute
		g    *group
		wish reliable.Wish
		can  bool
		told string // "": nothing
	}{
		{a, g, out, true, "out 1 7 11"},
		{a, h, out, true, ""},
		{b, g, out, true, "out 1 8 22"},
		{c, g, out, false, ""},
		{a, g, none, true, ""},
		{b, g, none, true, "in 1 8 22"},
		{c, g, out, true, "out 2 7 11"},
		{a, g, in, true, "in 1 7 11"}, // though h wishes it out
		{a, h, out, true, ""},
		{a, g, out, true, "out 1 7 11"},
		{a, g, in, true, "in 1 7 11"},
		{a, g, none, true, "out 1 7 11"}, // h still does
		{a, h, in, true, "in 1 7 11"},
		{a, g, out, true, ""},
		{b, h, in, true, ""},
		{b, h, none, true, ""},
		{a, g, none, true, ""},
		{a, h, none, true, ""},
		{c, g, none, true, "in 2 7 11"},
	} {
		m.told = nil
		if x.set(step.of, step.g, step.wish) != step.can {
			t.Errorf("step %d: not %v", i, step.can)
		}
		if told := strings.Join(m.told, ", "); told != step.told {
			t.Errorf("step %d: told %q, want %q", i, told, step.told)
		}
	}
	if len(x.of) > 0 {
		t.Errorf("%d are left", len(x.of))
	}
	if newMuted(m, true).t != nil || newMuted(struct{ transport.Transport }{}, false).t != nil {
		t.Error("what cannot be kept out is")
	}
}
