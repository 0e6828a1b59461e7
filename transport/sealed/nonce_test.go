package sealed

import (
	"bytes"
	crand "crypto/rand"
	"encoding/binary"
	"testing"
	"time"
)

// nonces collects what packets were sealed with: of one key, salt and nonce, one packet only.
type nonces struct {
	t    *testing.T
	seen map[[4 + saltLen + nonceLen]byte][]byte // the packet inside
	same int                                     // sealed again with the same bytes
}

// seal seals packets after begin as a Sender does, and looks at each.
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

// No nonce is used for two packets under one key: over restarts with the clock set back and the same
// name, over copies of the memory of what runs, at any point, and over the end of the counter.
// What a copy is made of, after the random bytes were drawn, is the same packet. docs/protocol.md §27.5.
func TestNoNonceRepeats(t *testing.T) {
	random := newPCG(t)
	set := testSet(t, 1)
	n := &nonces{t: t, seen: make(map[[4 + saltLen + nonceLen]byte][]byte)}
	packet := uint64(0)
	train := func() (some [][]byte) { // of new packets
		for range 1 + random.IntN(5) {
			packet++
			some = append(some, binary.LittleEndian.AppendUint64(nil, packet))
		}
		return some
	}
	start := time.Now()
	clock := func() time.Time { return start.Add(-time.Duration(random.IntN(1000)) * time.Second) } // it goes to and fro
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
		case 2: // a copy after the random bytes were drawn: the packets are there already
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
		case 5: // other keys, and the first ones again
			set = testSet(t, KeyID(1+random.IntN(3)))
		}
		if len(running) > 8 {
			running = running[1:]
		}
		begin(s)
		n.seal(s, train()...)
	}
	if copies < 1000 || n.same == 0 {
		t.Errorf("%d copies, %d packets sealed again with the same bytes: the test tests little", copies, n.same)
	}
}

// The counter of a salt ends at 2^32-1, and does not go round: the next train has another salt.
// docs/protocol.md §27.5.
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
		t.Error("two counters are left, and another salt is taken for two packets")
	}
	b := make([]byte, 1+Overhead)
	s.seal(b, []byte{1})
	s.seal(b, []byte{1})
	if c := header(b).counter(); c != maxCounter {
		t.Errorf("counter %#x", c)
	}
	if begin(1) == first || s.next != 0 {
		t.Errorf("the salt stays, with counter %#x", s.next)
	}
	s.next = maxCounter - 1
	if salt := begin(3); s.next != 0 || salt == first {
		t.Error("a train reaches over the end of the counter")
	}
}

// Random bytes are drawn for each train, when it is sealed, and not ahead. docs/protocol.md §27.5.
func TestNothingIsDrawnAhead(t *testing.T) {
	set, random := testSet(t, 1), new(counted)
	s := newSealer(0, random)
	if err := s.begin(set, time.Now(), 1); err != nil {
		t.Fatal(err)
	}
	if random.n != saltLen+trainLen {
		t.Errorf("%d bytes are drawn with the first train", random.n)
	}
	for range 10 {
		before := random.n
		if err := s.begin(set, time.Now(), 1); err != nil {
			t.Fatal(err)
		}
		if drawn := random.n - before; drawn != trainLen {
			t.Errorf("%d bytes are drawn with a train", drawn)
		}
	}
}

// Over 2^33 packets, in trains of any length, no salt has a counter twice. (What seal does with it is to add one.)
// docs/protocol.md §27.5.
func TestBillionsOfPackets(t *testing.T) {
	random, set := newPCG(t), testSet(t, 1)
	s := newSealer(0, crand.Reader)
	next := make(map[[saltLen]byte]uint64) // of each salt the counter that is to come
	for total := uint64(0); total < 1<<33; {
		n := 1 + random.IntN(maxTrain)
		if err := s.begin(set, time.Now(), n); err != nil {
			t.Fatal(err)
		}
		salt := [saltLen]byte(s.head[atSender:])
		if s.next != next[salt] || s.next+uint64(n)-1 > maxCounter {
			t.Fatalf("salt %x goes on at %#x with %d packets, behind %#x", salt, s.next, n, next[salt])
		}
		s.next += uint64(n)
		next[salt] = s.next
		total += uint64(n)
	}
	if len(next) < 2 {
		t.Errorf("%d salts for 2^33 packets", len(next))
	}
}
