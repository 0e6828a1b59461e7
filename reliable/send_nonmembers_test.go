package reliable

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// idle returns a publisher that has filled its window and sends no more data, with the repair
// budget at its minimum. Its window is worth more than a second of that.
func idle(t *testing.T, change func(*SenderConfig)) *bench {
	t.Helper()
	const window = 8192
	b := newBench(t, func(c *SenderConfig) {
		c.PacketSize, c.MaxTrain, c.MaxTrainBytes, c.WindowPackets, c.Flow = 1472, 44, 65000, window, NoFlow{}
		if change != nil {
			change(c)
		}
	})
	x := b.topic("a.b")
	for range window {
		b.put(x, 1300)
		b.s.Assign(b.now, b.w, true)
		b.next()
		b.now = b.now.Add(10 * time.Microsecond)
	}
	b.now = b.now.Add(20 * time.Second) // the peak of the data rate has expired
	b.next()
	return b
}

// drawn returns how many bytes are sent because of the requests, without heartbeats.
func (b *bench) drawn(d time.Duration, every time.Duration, ask func(i int)) (bytes int) {
	for i, start := 0, b.now; b.now.Sub(start) < d; i++ {
		ask(i)
		for step := time.Duration(0); step < every; step += 5 * time.Millisecond {
			for _, p := range b.next() {
				if p.Type != wire.TypeHeartbeat {
					bytes += len(p.b)
				}
			}
			b.now = b.now.Add(min(every, 5*time.Millisecond))
		}
	}
	return bytes
}

// requestAll requests all past and future packets.
func (b *bench) requestAll(receiver uint64) { b.nak(receiver, [2]uint64{b.s.win.trail, 1 << 40}) }

// Receivers that are not members get repairs at a low rate, and members within the full budget. docs/protocol §6.14.
func TestNonMembersGetFewRepairs(t *testing.T) {
	const floor = strangersRate
	for _, c := range []struct {
		name        string
		for_, every time.Duration
		prepare     func(b *bench)
		change      func(*SenderConfig)
		ask         func(b *bench, i int)
		least, most int
	}{
		{name: "one NAK for all", for_: 10 * time.Second, every: 10 * time.Second,
			ask: func(b *bench, _ int) { b.requestAll(666) }, least: floor - 1472, most: floor},
		{name: "twenty a second", for_: 8 * time.Second, every: 50 * time.Millisecond,
			ask: func(b *bench, _ int) { b.requestAll(666) }, least: 8 * floor, most: 9 * floor},
		{name: "another id each time", for_: 8 * time.Second, every: 5 * time.Millisecond,
			ask: func(b *bench, i int) { b.requestAll(uint64(1000 + i)) }, least: 8 * floor, most: 9 * floor},
		{name: "a former member, silent since", for_: 8 * time.Second, every: 50 * time.Millisecond,
			prepare: func(b *bench) { b.status(1, 0, 1<<40, 0); b.now = b.now.Add(repeatedLife) },
			ask:     func(b *bench, _ int) { b.requestAll(1) }, least: 8 * floor, most: 9 * floor},
		{name: "a member", for_: time.Second, every: 50 * time.Millisecond,
			prepare: func(b *bench) { b.status(1, 0, 1<<40, 0) },
			ask:     func(b *bench, _ int) { b.requestAll(1) }, least: 1 << 20, most: 2 * 8192 * 1472},
		{name: "a joining member", for_: time.Second, every: 50 * time.Millisecond,
			prepare: func(b *bench) { b.status(1, 0, 1<<40, wire.FlagJoining) },
			ask:     func(b *bench, _ int) { b.requestAll(1) }, least: 1 << 20, most: 2 * 8192 * 1472},
		{name: "a receiver beyond the limit of members", for_: time.Second, every: 50 * time.Millisecond,
			prepare: func(b *bench) { b.status(1, b.s.win.sent, 1<<40, 0) },
			change:  func(c *SenderConfig) { c.MaxReceivers = 1 },
			ask:     func(b *bench, _ int) { b.requestAll(2) }, least: 1 << 20, most: 3 * 8192 * 1472},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := idle(t, c.change)
			if c.prepare != nil {
				c.prepare(b)
			}
			got := b.drawn(c.for_, c.every, func(i int) { c.ask(b, i) })
			if got < c.least || got > c.most {
				t.Errorf("%d bytes sent, want %d to %d", got, c.least, c.most)
			}
			if refused := b.s.Stats().NAKRefused > 0; refused != (c.most <= 9*floor) {
				t.Errorf("%d packets refused", b.s.Stats().NAKRefused)
			}
		})
	}
}

// A new receiver that lost its first status still gets its first packets at once, and all others
// with its next status. docs/protocol §6.14, §7.1.
func TestFirstNAKBeforeTheFirstStatus(t *testing.T) {
	b := idle(t, nil)
	lost := [2]uint64{b.s.win.sent - 30, 30}
	b.nak(1, lost)
	if n := len(of(wire.TypeData, b.next())); n < 10 {
		t.Errorf("%d packets at once, want at least 10", n)
	}
	b.now = b.now.Add(20 * time.Millisecond)
	b.status(1, lost[0]+10, 1<<40, 0)
	b.nak(1, [2]uint64{lost[0] + 10, 20})
	n := 0
	for range 3 { // at a burst for each round trip
		n += len(of(wire.TypeData, b.next()))
		b.now = b.now.Add(startRTT)
	}
	if n < 19 {
		t.Errorf("%d packets for the new member, want the remaining ones", n)
	}
}

// While data is sent, all receivers that are not members share a sixteenth of its rate. docs/protocol §6.14.
func TestShareOfNonMembersInTheDataRate(t *testing.T) {
	b := idle(t, nil)
	x := b.topic("a.b")
	fresh, repaired := 0, 0
	for i := range 10_000 { // a second
		b.put(x, 1300)
		b.s.Assign(b.now, b.w, true)
		b.requestAll(uint64(1000 + i))
		for _, p := range of(wire.TypeData, b.next()) {
			if p.Flags&wire.FlagRepair != 0 {
				repaired += len(p.b)
			} else {
				fresh += len(p.b)
			}
		}
		b.now = b.now.Add(100 * time.Microsecond)
	}
	if most := fresh/strangersPart*11/10 + strangersRate; repaired > most || repaired < fresh/strangersPart*3/4 {
		t.Errorf("%d bytes of repairs with %d of new data, want at most %d", repaired, fresh, most)
	}
}

// A packet longer than the allowance is repaired, too. docs/protocol §6.14.
func TestLongPacketForNonMember(t *testing.T) {
	b := newBench(t, func(c *SenderConfig) {
		c.PacketSize, c.MaxTrain, c.MaxTrainBytes, c.WindowPackets, c.Flow = 60000, 1, 60000, 16, NoFlow{}
	})
	x := b.topic("a.b")
	for range 4 {
		b.put(x, 59000)
		b.s.Assign(b.now, b.w, true)
		b.next()
	}
	b.requestAll(666)
	if n := len(of(wire.TypeData, b.next())); n != 1 {
		t.Errorf("%d packets, want 1", n)
	}
}
