package hostile

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/transport/sealed"
)

// All kinds of hostile packets are made from copies of recorded ones.
func TestPackets(t *testing.T) {
	key := sealed.Key{ID: 7, Secret: [32]byte{9}}
	seen, err := Sealed(key, 10, 300, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	key.Secret[0] = 1
	foreign, err := Sealed(key, 10, 200, time.Now().Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if len(seen) != 10 || len(seen[0]) != 300 || len(foreign[0]) != 200 {
		t.Fatalf("%d packets of %d bytes, and %d of %d, want 10 of 300, and of 200", len(seen), len(seen[0]), len(foreign), len(foreign[0]))
	}
	m := Maker{Random: rand.New(rand.NewPCG(1, 1)), Foreign: foreign, Reply: func() []byte { return bytes.Clone(seen[9]) }}
	m.See([]byte("Ff, but not sealed"))
	for _, p := range seen {
		m.See(p)
	}
	if m.Recorded() != 10 {
		t.Errorf("%d packets were recorded, want 10", m.Recorded())
	}
	before := bytes.Join(seen, nil)
	kinds := make(map[string]int)
	for range 3000 {
		p, kind := m.Packet()
		kinds[kind]++
		for i := range p {
			p[i] ^= 0xff
		}
	}
	if len(kinds) != 15 {
		t.Errorf("%d kinds of attacks, want 15: %v", len(kinds), kinds)
	}
	if !bytes.Equal(bytes.Join(seen, nil), before) || m.Recorded() != 10 {
		t.Error("a recorded packet was changed")
	}
	m.Reply, m.Foreign = nil, nil
	for range 1000 {
		if p, _ := m.Packet(); len(p) == 0 {
			t.Fatal("an empty packet")
		}
	}
}
