package driver

import (
	"fmt"
	"slices"
	"testing"

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

// A stream that several groups of one index follow is kept out while one of them wants it.
func TestMuted(t *testing.T) {
	m := &muter{can: 2}
	x := newMuted(m, false)
	a, b, c := mute{1, 7, 0x11, 5}, mute{1, 8, 0x22, 5}, mute{2, 7, 0x11, 5}
	for i, step := range []struct {
		of      mute
		on, can bool
	}{
		{a, true, true}, {a, true, true}, {b, true, true}, {c, true, false}, {a, false, true}, {b, false, true}, {c, true, true}, {a, false, true}, {a, true, true},
	} {
		if x.set(step.of, step.on) != step.can {
			t.Errorf("step %d: not %v", i, step.can)
		}
	}
	want := []string{"out 1 7 11", "out 1 8 22", "in 1 8 22", "out 2 7 11", "in 1 7 11", "out 1 7 11"}
	if !slices.Equal(m.told, want) {
		t.Errorf("told %q, want %q", m.told, want)
	}
	if newMuted(m, true).t != nil || newMuted(struct{ transport.Transport }{}, false).t != nil {
		t.Error("what cannot be kept out is")
	}
}
