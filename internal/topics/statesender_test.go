package topics

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// stateBlocks is how many blocks the packets of state need.
const stateBlocks = 2

func stateStatus(flags wire.Flags, st *wire.Status) []byte {
	return wire.AppendStatus(nil, wire.Header{GroupTag: 9, Publisher: 7, Epoch: 3, Flags: flags}, st, nil)
}

// A publisher answers all requests for state together, within its budget. docs/protocol §25.1, §25.3, §25.5.
func TestStateSender(t *testing.T) {
	const ms = reliable.Instant(time.Millisecond)
	cfg := reliable.SenderConfig{Publisher: 7, Epoch: 3, GroupTag: 9, PacketSize: 1472, WindowPackets: 256, Rate: 1_000_000, RepairShare: 0.5, Silence: time.Second}
	var train transport.Outbound
	s, err := reliable.NewSender(cfg, make([]byte, cfg.BlockBytes()*(cfg.Blocks()+stateBlocks)), 0)
	if err != nil {
		t.Fatal(err)
	}
	m := NewSender(s, nil, nil)
	topic, err := m.Topic("x")
	if err != nil {
		t.Fatal(err)
	}
	x := m.NewState(0, 0.1, func(w *Writer) bool { return s.Grant(w.Packets) })
	ask := func(now reliable.Instant, id, next uint64) {
		st := wire.Status{Receiver: id, Next: next, Limit: 1 << 20, Echo: uint64(now) + 1}
		s.Handle(now, stateStatus(wire.FlagJoining|wire.FlagWantState, &st), nil)
	}
	if ask(ms, 1, 0); x.Due() != reliable.Never || m.state.kept() {
		t.Fatal("a round is due without state")
	}
	x.Keep(true)
	ask(2*ms, 1, 0)
	ask(5*ms, 2, 0)
	if due := x.Due(); due != 2*ms+reliable.Instant(stateCollect) || !m.state.kept() {
		t.Fatalf("a round is due at %v", due)
	}
	now := x.Due()
	if !x.Begin(now) || !x.Open() || s.Lead() != 1 || !x.Wanted(topic.ID) {
		t.Fatal("no round has begun")
	}
	if ask(now, 1, 0); x.Due() != reliable.Never {
		t.Error("a receiver of the round causes another round")
	}
	state := make([]byte, 100_000)
	left, begun, done := state, false, false
	sent := func() int { return len(state) - len(left) }
	for begin := now; !done; {
		left, begun, done = x.Put(now, topic, 7, left, !begun, false)
		x.Flush(now, false)
		for s.Next(now, &train) {
			s.Sent(now, train.Count, 0)
		}
		if most := 100_000*int(now-begin)/int(time.Second) + 8*cfg.PacketSize; sent() > most {
			t.Fatalf("%d bytes after %v, limit %d", sent(), now-begin, most)
		}
		if due := x.Due(); !done && due <= now {
			t.Fatalf("due at %v, it is %v", due, now)
		}
		if done {
			if took := time.Duration(now - begin); took < 800*time.Millisecond || took > 1200*time.Millisecond {
				t.Errorf("100,000 bytes at 100,000 a second took %v", took)
			}
			break
		}
		now = max(now+1, x.Due())
	}
	if ask(now, 3, 5); x.Due() != reliable.Never {
		t.Error("a round is due while one runs")
	}
	for now += 100 * ms; !x.End(now); now += 100 * ms {
	}
	if due := x.Due(); due == reliable.Never || x.Open() {
		t.Errorf("no further round for a later receiver: due at %v", due)
	}
	if st := m.Stats(); st.StateRounds != 1 || st.StateBytes != 100_000 {
		t.Errorf("%+v", st)
	}
}

// A round that must wait at its end continues until the packet with its end has a sequence:
// otherwise waiting receivers would never learn of it. docs/protocol §25.3.
func TestStateEndWaits(t *testing.T) {
	cfg := reliable.SenderConfig{Publisher: 7, Epoch: 3, GroupTag: 9, PacketSize: 1472, WindowPackets: 256, RepairShare: 0.5, Silence: time.Second}
	s, err := reliable.NewSender(cfg, make([]byte, cfg.BlockBytes()*(cfg.Blocks()+stateBlocks)), 0)
	if err != nil {
		t.Fatal(err)
	}
	m := NewSender(s, nil, nil)
	topic, err := m.Topic("x")
	if err != nil {
		t.Fatal(err)
	}
	x := m.NewState(0, 0.1, func(w *Writer) bool { return s.Grant(w.Packets) })
	x.Keep(true)
	takes := func(now reliable.Instant, limit uint64) { // another subscriber
		s.Handle(now, stateStatus(0, &wire.Status{Receiver: 2, Limit: limit, Echo: uint64(now) + 1}), nil)
	}
	takes(1, 1)
	s.Handle(1, stateStatus(wire.FlagJoining|wire.FlagWantState, &wire.Status{Receiver: 1, Limit: 10, Echo: 2}), nil)
	now := x.Due()
	if !x.Begin(now) {
		t.Fatal("no round has begun")
	}
	if _, _, done := x.Put(now, topic, 7, []byte("all of it"), true, false); !done {
		t.Fatal("no room")
	}
	for range 3 {
		if now++; x.End(now) || !x.Open() || !x.Pending() || s.Blocked() != events.ReasonFlow {
			t.Fatalf("the round is over while a subscriber has no room: open %v, pending %v, blocked by %v", x.Open(), x.Pending(), s.Blocked())
		}
	}
	now++
	takes(now, 10)
	if now++; !x.End(now) || x.Open() || x.Pending() || s.Lead() != 2 {
		t.Errorf("the round does not end, or ends twice: open %v, pending %v, %d packets", x.Open(), x.Pending(), s.Lead())
	}
}
