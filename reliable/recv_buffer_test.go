package reliable

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// bufferOf is a buffer with so many groups, in which receivers are counted.
func bufferOf(packets, groups int, together, sendersApart bool) *ReceiveBuffer {
	b := NewReceiveBuffer(packets, together, sendersApart)
	for i := range groups {
		new(counted).set(&ReceiverConfig{Buffer: b, GroupTag: uint32(i)}, true)
	}
	return b
}

// What waits in one buffer shares it: where groups wait together, among all groups. Half of it is always left to what flow
// control does not hold back. docs/protocol §7.3.
func TestReceiveBufferIsShared(t *testing.T) {
	type key struct {
		publisher events.ID
		group     uint32
	}
	for name, c := range map[string]struct {
		together, apart bool
		groups          int
		streams         []key // the promise is the first one's
		want            uint64
	}{
		"one stream":                           {false, false, 1, []key{{1, 0}}, 512},
		"of two in a group":                    {false, false, 1, []key{{1, 0}, {2, 0}}, 256},
		"another group has its own":            {false, false, 2, []key{{1, 0}, {1, 1}}, 512},
		"one group of those that are together": {true, false, 1, []key{{1, 0}}, 512},
		"16 groups together, one heard":        {true, false, 16, []key{{1, 0}}, 32},
		"streams of all publishers":            {true, false, 2, []key{{1, 0}, {1, 1}, {2, 0}, {2, 1}}, 128},
		"each publisher by itself":             {true, true, 2, []key{{1, 0}, {1, 1}, {2, 0}, {2, 1}}, 256},
		"the same packets at two receivers":    {true, true, 1, []key{{1, 0}, {1, 0}}, 512},
		"senders apart is of groups together":  {false, true, 1, []key{{1, 0}, {2, 0}}, 256},
		"no less than eight, however many":     {true, true, 1000, []key{{1, 0}}, 8},
		"one group more than there are shares": {true, true, 65, []key{{1, 0}}, 8},
	} {
		b := bufferOf(1024, c.groups, c.together, c.apart)
		var all []streamShare
		for _, s := range c.streams {
			all = append(all, b.join(s.publisher, s.group, 0))
		}
		if got := b.promise(all[0].bufferShare, 1); got != c.want {
			t.Errorf("%s: %d packets, want %d", name, got, c.want)
		}
		for i := range all {
			if len(b.parts) == 0 || b.shares[all[i].key] == nil {
				t.Errorf("%s: stream %d has no share any more", name, i)
			}
			b.leave(&all[i])
		}
		if len(b.shares)+len(b.parts) > 0 {
			t.Errorf("%s: %d shares and %d parts stay when all have left", name, len(b.shares), len(b.parts))
		}
	}
}

// A stream that is down promises nothing, and leaves its share to others. docs/protocol §7.3.
func TestStreamThatIsDownHasNoShare(t *testing.T) {
	b := NewReceiveBuffer(100, false, false)
	x, y := b.join(1, 0, 0), b.join(2, 0, 0)
	again := b.join(2, 0, 0) // the same publisher's, of another instance
	for i, step := range []struct {
		s    *streamShare
		up   bool
		want uint64
	}{{&x, true, 25}, {&y, false, 25}, {&again, false, 50}, {&again, false, 50}, {&y, true, 25}, {&y, true, 25}} {
		if step.s.note(1, step.up, 0); b.promise(x.bufferShare, 1) != step.want {
			t.Errorf("step %d: %d packets, want %d", i, b.promise(x.bufferShare, 1), step.want)
		}
	}
}

// Where few of many streams have new data those have half of the buffer, but not before it was seen how many
// they are, nor when they rest again. docs/protocol §7.3.
func TestBusyStreamsPromiseMore(t *testing.T) {
	at := func(ms int) Instant { return Instant(time.Hour).Add(time.Duration(ms) * time.Millisecond) }
	b := bufferOf(1024, 16, true, true)
	var all []streamShare
	for i := range 16 {
		all = append(all, b.join(1, uint32(i), 5))
	}
	high := uint64(5)
	for i, step := range []struct {
		ms, first, busy int // those have new data, and others none
		want            uint64
	}{
		{0, 0, 16, 32},  // all begin
		{10, 0, 16, 32}, // and go on
		{20, 0, 1, 32},
		{30, 0, 1, 256},
		{35, 0, 1, 256},
		{40, 0, 4, 256}, // three more begin
		{45, 0, 4, 256},
		{50, 0, 4, 64},
		{60, 0, 0, 64}, // of the period before it is not known yet that it rests
		{70, 0, 0, 32},
		{80, 1, 1, 32}, // another one
		{90, 0, 1, 32}, // and again the first, which had none just before
	} {
		high++
		for j := range all {
			if j >= step.first && j < step.first+step.busy {
				all[j].note(at(step.ms), true, high)
			} else {
				all[j].note(at(step.ms), true, 0)
			}
		}
		if got := b.promise(all[0].bufferShare, at(step.ms)); got != step.want {
			t.Errorf("step %d: %d packets, want %d", i, got, step.want)
		}
	}
}

// The statuses of all groups that wait together promise no more than half of what their buffer holds, from the first one
// on, and again when groups are left. docs/protocol §7.3.
func TestGroupsTogetherPromiseWhatFitsTheirBuffer(t *testing.T) {
	const groups = 16
	buffer := NewReceiveBuffer(groups*20, true, true)
	var all []*Receiver
	for i := range groups {
		all = append(all, newReceiver(t, &log{}, func(c *ReceiverConfig) { c.GroupTag, c.Buffer = uint32(100+i), buffer }))
	}
	promised := func(all []*Receiver, first uint32) (sum uint64) {
		for i, r := range all {
			r.Handle(1, 5, wire.AppendHeartbeat(nil, wire.Header{GroupTag: first + uint32(i), Publisher: 7, Epoch: 3, Flags: wire.FlagSolicit},
				&wire.Heartbeat{Lead: 5, SentAt: uint64(first), PacketSize: 512}))
			for _, p := range of(wire.TypeStatus, replies(r, 1)) {
				st, err := wire.ParseStatus(p.b)
				if err != nil {
					t.Fatal(err)
				}
				sum += st.Limit - 5
			}
		}
		return sum
	}
	if got := promised(all, 100); got != groups*10 {
		t.Errorf("%d groups promise %d packets, want %d", groups, got, groups*10)
	}
	for _, r := range all[1:] {
		r.Leave()
		r.Leave()
	}
	if len(buffer.groups) != 1 || len(buffer.shares) != 1 {
		t.Errorf("%d groups and %d shares, want 1", len(buffer.groups), len(buffer.shares))
	}
	setTopics(all[1], 2, []string{"a.b"})
	if all[2].Free(); len(buffer.groups) != 2 {
		t.Errorf("%d groups when one is wanted again, want 2", len(buffer.groups))
	}
}
