package sealed

import (
	"bytes"
	crand "crypto/rand"
	"encoding/binary"
	"io"
	"testing"
	"time"
)

// nonces collects the packet sealed with each key, salt and nonce, which must be the only one.
type nonces struct {
	t    *testing.T
	seen map[[4 + saltLen + nonceLen]byte][]byte // the unsealed packet
	same int                                     // packets sealed again with the same result
}

// seal seals packets as a Sender does, after begin, and checks each.
func (n *nonces) seal(s *sealer, packets ...[]byte) {
	n.t.Helper()
	for _, p := range packets {
		b := make([]byte, len(p)+Overhead)
		s.seal(b, p)
		h := header(b)
		var key [4 + saltLen + nonceLen]byte
		copy(key[:], b[atKey:atKey+4])
		copy(key[4:], b[atSender:atMark])
		var nonce [nonceLen]byte
		h.nonce(&nonce)
		copy(key[4+saltLen:], nonce[:])
		if old, twice := n.seen[key]; twice && !bytes.Equal(old, p) {
			n.t.Fatalf("salt %x, nonce %x: sealed %x, and %x", b[atSender:atMark], nonce, old, p)
		} else if twice {
			n.same++
		}
		n.seen[key] = bytes.Clone(p)
	}
}

// No nonce is used for two packets with one key: not after restarts with the clock set back and the same name, not
// after copies of the process memory at any point (as of a virtual machine), and not at the end of the counter. A copy
// made after the random bytes were drawn seals the same packet. docs/protocol §27.5.
func TestNoNonceRepeats(t *testing.T) {
	random := newPCG(t)
	set := testSet(t, 1)
	n := &nonces{t: t, seen: make(map[[4 + saltLen + nonceLen]byte][]byte)}
	packet := uint64(0)
	train := func() (some [][]byte) { // returns new packets
		for range 1 + random.IntN(5) {
			packet++
			some = append(some, binary.LittleEndian.AppendUint64(nil, packet))
		}
		return some
	}
	start := time.Now()
	at := time.Duration(0)
	clock := func() time.Time { // a clock that is set back and forth
		if at += time.Millisecond; random.IntN(50) == 0 {
			at = -time.Duration(random.IntN(1000)) * time.Second
		}
		return start.Add(at)
	}
	begin := func(s *sealer) {
		if err := s.begin(set, clock(), 5); err != nil {
			t.Fatal(err)
		}
	}
	copies := 0
	running := []*sealer{newSealer(0, crand.Reader)}
	for range 20_000 {
		s := running[random.IntN(len(running))]
		switch random.IntN(20) {
		case 0: // a restart within a tick
			*s = *newSealer(uint32(random.IntN(2)), crand.Reader)
		case 1: // a copy while nothing is being sealed
			c := *s
			copies++
			running = append(running, &c)
		case 2: // a copy after the random bytes were drawn: its packets are the same
			begin(s)
			some := train()
			c := *s
			copies++
			n.seal(s, some...)
			n.seal(&c, some...)
			running = append(running, &c)
			continue
		case 3: // a copy in the middle of a train
			begin(s)
			some := train()
			half := random.IntN(len(some) + 1)
			n.seal(s, some[:half]...)
			c := *s
			copies++
			n.seal(s, some[half:]...)
			n.seal(&c, some[half:]...)
			running = append(running, &c)
			continue
		case 4: // near the end of the counter
			if s.key != nil && s.next < maxCounter-100 {
				s.next = maxCounter - uint64(random.IntN(10))
			}
		case 5: // other keys, and then the first ones again
			set = testSet(t, KeyID(1+random.IntN(3)))
		}
		if len(running) > 8 {
			running = running[1:]
		}
		begin(s)
		n.seal(s, train()...)
	}
	if copies < 1000 || n.same == 0 {
		t.Errorf("%d copies, %d packets sealed again with the same result: too few for this test", copies, n.same)
	}
}

// The counter of a salt ends at 2^32-1 and does not wrap around: the next train has another salt. docs/protocol §27.5.
func TestCounterEnds(t *testing.T) {
	set := testSet(t, 1)
	s := newSealer(0, crand.Reader)
	begin := func(n int) [saltLen]byte {
		t.Helper()
		if err := s.begin(set, time.Now(), n); err != nil {
			t.Fatal(err)
		}
		return [saltLen]byte(s.head[atSender:])
	}
	first := begin(1)
	s.next = maxCounter - 1
	if begin(2) != first {
		t.Error("with two counters left, two packets use another salt")
	}
	b := make([]byte, 1+Overhead)
	s.seal(b, []byte{1})
	s.seal(b, []byte{1})
	if c := header(b).counter(); c != maxCounter {
		t.Errorf("counter %#x, want %#x", c, uint64(maxCounter))
	}
	if begin(1) == first || s.next != 0 {
		t.Errorf("the salt is unchanged, with counter %#x", s.next)
	}
	s.next = maxCounter - 1
	if salt := begin(3); s.next != 0 || salt == first {
		t.Error("a train wraps around the counter")
	}
}

// Random bytes are drawn when a train is sealed, not in advance. docs/protocol §27.5.
func TestRandomBytesPerTrain(t *testing.T) {
	set, random := testSet(t, 1), new(counted)
	s := newSealer(0, random)
	if err := s.begin(set, time.Now(), 1); err != nil {
		t.Fatal(err)
	}
	if random.n != saltLen+trainLen {
		t.Errorf("%d random bytes for the first train, want %d", random.n, saltLen+trainLen)
	}
	for range 10 {
		before := random.n
		if err := s.begin(set, time.Now(), 1); err != nil {
			t.Fatal(err)
		}
		if drawn := random.n - before; drawn != trainLen {
			t.Errorf("%d random bytes for a train, want %d", drawn, trainLen)
		}
	}
}

// trains collects the nonces of whole trains, each as one run of counters, so that those of 2^32 packets can be
// compared.
type trains struct {
	seen  map[[saltLen + trainLen]byte][]run
	twice int // packets with the nonce of another packet
	same  int // packets sealed again with the same result, by a copy
	count uint64
}

// run is the counters [from, end) of one salt and one draw of random bytes, and the number of its first packet.
type run struct{ from, end, packets uint64 }

func (x *trains) add(s *sealer, n, packets uint64) {
	key := [saltLen + trainLen]byte(append(append([]byte(nil), s.head[atSender:atMark]...), s.head[atTrain:atTrain+trainLen]...))
	now := run{s.next, s.next + n, packets}
	for _, was := range x.seen[key] {
		if both := int64(min(was.end, now.end)) - int64(max(was.from, now.from)); both <= 0 {
			continue
		} else if was.packets == now.packets && was.from == now.from {
			x.same += int(both)
		} else {
			x.twice += int(both)
		}
	}
	x.seen[key] = append(x.seen[key], now)
	x.count += n
}

// sealVirtually seals only the first and the last of n packets, and continues as if all between were sealed, too. It
// returns false if the nonces of these two differ from the collected ones.
func sealVirtually(s *sealer, n, packets uint64) bool {
	var b [Overhead + 8]byte
	from := s.next
	s.seal(b[:], binary.LittleEndian.AppendUint64(nil, packets))
	first, _ := Parse(b[:])
	s.next = from + n - 1
	s.seal(b[:], binary.LittleEndian.AppendUint64(nil, packets+n))
	last, ok := Parse(b[:])
	return ok && uint64(first.Counter) == from && uint64(last.Counter) == from+n-1 && s.next == from+n && first.Train == last.Train && first.Salt == last.Salt
}

// No two of 2^33 packets have the same nonce and key, although senders are restarted, also within a tick, clocks are
// set back and forth, and memory is copied at any moment, with both copies continuing. docs/protocol §27.5.
func TestBillionsOfPackets(t *testing.T) {
	for _, c := range []struct {
		name   string
		random io.Reader
		total  uint64
		twice  bool
	}{
		{"normal random bytes", crand.Reader, 1 << 33, false},
		{"the test detects random bytes that are the same after a copy", zeros{}, 1 << 26, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			random, set := newPCG(t), testSet(t, 1)
			clock := time.Now()
			x := trains{seen: make(map[[saltLen + trainLen]byte][]run)}
			running := []*sealer{newSealer(0, c.random)}
			copies, restarts, packets := 0, 0, uint64(0)
			for x.count < c.total {
				s := running[random.IntN(len(running))]
				if random.IntN(1000) == 0 { // a restart: under load a salt sometimes reaches its end
					*s = *newSealer(0, c.random)
					restarts++
				}
				n := 1 + random.Uint64N(maxTrain)
				if clock = clock.Add(time.Millisecond); random.IntN(1000) == 0 {
					clock = clock.Add(time.Duration(random.IntN(7200)-3600) * time.Second)
				}
				before := *s
				if err := s.begin(set, clock, int(n)); err != nil {
					t.Fatal(err)
				}
				packets += n + 1
				x.add(s, n, packets)
				after := *s
				if !sealVirtually(s, n, packets) {
					t.Fatalf("%d packets from counter %#x have other nonces", n, after.next)
				}
				switch random.IntN(200) {
				case 0: // copied before the draw: the copy has other packets
					running, copies = append(running, &before), copies+1
				case 1: // copied after it: the copy has the same packets
					x.add(&after, n, packets)
					sealVirtually(&after, n, packets)
					running, copies = append(running, &after), copies+1
				}
				if len(running) > 8 {
					running = running[1:]
				}
			}
			if (x.twice > 0) != c.twice {
				t.Errorf("%d of %d packets have the nonce of another packet, want some: %v", x.twice, x.count, c.twice)
			}
			if copies == 0 || restarts == 0 && !c.twice || x.same == 0 { // with 2^26 packets a restart is not certain
				t.Errorf("%d copies, %d restarts, %d packets sealed twice: too few for this test", copies, restarts, x.same)
			}
			t.Logf("%d packets, %d copies, %d restarts, %d packets sealed again with the same result", x.count, copies, restarts, x.same)
		})
	}
}

// zeros is a reader of bytes that are not random.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }
