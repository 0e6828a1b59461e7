package reliable

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// bufferOf returns a buffer shared by the given number of groups.
func bufferOf(packets, groups int, together, sendersApart bool) *ReceiveBuffer {
	b := NewReceiveBuffer(packets, together, sendersApart)
	for i := range groups {
		new(counted).set(&ReceiverConfig{Buffer: b, GroupTag: uint32(i)}, true)
	}
	return b
}

// Packets waiting in a buffer share it: among all groups, if the groups share a buffer. Half of it
// is always reserved for packets that flow control does not limit. docs/protocol §7.3.
func TestReceiveBufferIsShared(t *testing.T) {
	type key struct {
		publisher events.ID
		group     uint32
	}
	for name, c := range map[string]struct {
		together, apart bool
		groups          int
		streams         []key // the promise of the first one is tested
		want            uint64
	}{
		"one stream":                                   {false, false, 1, []key{{1, 0}}, 512},
		"two in a group":                               {false, false, 1, []key{{1, 0}, {2, 0}}, 256},
		"another group, separate buffers":              {false, false, 2, []key{{1, 0}, {1, 1}}, 512},
		"one group, common buffer":                     {true, false, 1, []key{{1, 0}}, 512},
		"16 groups, common buffer, one stream":         {true, false, 16, []key{{1, 0}}, 32},
		"streams of all publishers":                    {true, false, 2, []key{{1, 0}, {1, 1}, {2, 0}, {2, 1}}, 128},
		"a buffer for each publisher":                  {true, true, 2, []key{{1, 0}, {1, 1}, {2, 0}, {2, 1}}, 256},
		"the same packets at two receivers":            {true, true, 1, []key{{1, 0}, {1, 0}}, 512},
		"a buffer for each publisher, separate groups": {false, true, 1, []key{{1, 0}, {2, 0}}, 256},
		"at least eight":                               {true, true, 1000, []key{{1, 0}}, 8},
		"one group more than shares":                   {true, true, 65, []key{{1, 0}}, 8},
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
				t.Errorf("%s: stream %d has lost its share", name, i)
			}
			b.leave(&all[i])
		}
		if len(b.shares)+len(b.parts) > 0 {
			t.Errorf("%s: %d shares and %d parts remain after all have left", name, len(b.shares), len(b.parts))
		}
	}
}

// A stream that is down promises nothing, and its share is available to others. docs/protocol §7.3.
func TestStreamThatIsDownHasNoShare(t *testing.T) {
	b := NewReceiveBuffer(100, false, false)
	x, y := b.join(1, 0, 0), b.join(2, 0, 0)
	again := b.join(2, 0, 0) // another instance of the same publisher
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

// If few of many streams have new data, those streams share half of the buffer once their number is
// known, until they rest again. docs/protocol §7.3.
func TestBusyStreamsPromiseMore(t *testing.T) {
	at := func(ms int) Instant { return Instant(time.Hour).Add(time.Duration(ms) * time.Millisecond) }
	b := bufferOf(1024, 16, true, true)
	var all []streamShare
	for i := range 16 {
		all = append(all, b.join(1, uint32(i), 5))
	}
	high := uint64(5)
	for i, step := range []struct {
		ms, first, busy int // streams from first to first+busy have new data
		want            uint64
	}{
		{0, 0, 16, 32},  // all begin
		{10, 0, 16, 32}, // and continue
		{20, 0, 1, 32},
		{30, 0, 1, 256},
		{35, 0, 1, 256},
		{40, 0, 4, 256}, // three more begin
		{45, 0, 4, 256},
		{50, 0, 4, 64},
		{60, 0, 0, 64}, // it is not known yet that it rests
		{70, 0, 0, 32},
		{80, 1, 1, 32}, // another stream
		{90, 0, 1, 32}, // the first one again, without new data just before
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

// The statuses of all groups with a common buffer promise at most half of it, from the first status
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
	want(all[1], 2, true)
	if all[2].Free(); len(buffer.groups) != 2 {
		t.Errorf("%d groups after one is wanted again, want 2", len(buffer.groups))
	}
}
