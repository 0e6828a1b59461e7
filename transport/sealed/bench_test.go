package sealed

import (
	"crypto/rand"
	"encoding/binary"
	"testing"
	"time"
)

// The cost of sealing and opening a packet, by its size.
func BenchmarkSeal(b *testing.B) {
	for _, size := range []int{64, 1416, 8928} {
		b.Run(name(size), func(b *testing.B) {
			set := testSet(b, 1)
			s := newSealer(0, rand.Reader)
			plain, dst := make([]byte, size), make([]byte, size+Overhead)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if s.next%40 == 0 {
					if err := s.begin(set, time.Now(), 40); err != nil {
						b.Fatal(err)
					}
				}
				s.seal(dst, plain)
			}
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	for _, size := range []int{64, 1416, 8928} {
		b.Run(name(size), func(b *testing.B) {
			set := testSet(b, 1)
			s, o := newSealer(0, rand.Reader), testOpener(b, set)
			plain := make([]byte, size)
			packets := make([][]byte, 40)
			for i := range packets {
				packets[i] = make([]byte, size+Overhead)
			}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%40 == 0 {
					b.StopTimer()
					s.begin(set, time.Now(), 40)
					for _, p := range packets {
						s.seal(p, plain)
					}
					b.StartTimer()
				}
				if v := o.open(packets[i%40], 0, 0); v != accepted {
					b.Fatalf("verdict %d, want accepted", v)
				}
			}
		})
	}
}

// The cost of each kind of hostile packet for a receiver (docs/security.md), to be compared with the cost of a valid
// one, see BenchmarkOpen. docs/protocol §27.6.
func BenchmarkHostile(b *testing.B) {
	set := testSet(b, 1)
	now := time.Now()
	live := newSealer(0, rand.Reader)
	seal := func(s *sealer, set *Keyset, at time.Time) []byte {
		if err := s.begin(set, at, 1); err != nil {
			b.Fatal(err)
		}
		p := make([]byte, 1416+Overhead)
		s.seal(p, make([]byte, 1416))
		return p
	}
	good := seal(live, set, now)
	for _, c := range []struct {
		name   string
		packet []byte
		change int // the changed byte of the packet
		want   verdict
		more   bool // without a limit on unknown senders
	}{
		{"not Fanfare's", make([]byte, 1472), 100, foreign, false},
		{"open", append([]byte("Ff\x01\x01"), make([]byte, 1468)...), 100, unsealed, false},
		{"with an unknown key", seal(newSealer(0, rand.Reader), testSet(b, 2), now), 100, unknownKey, false},
		{"with a random salt", seal(newSealer(0, rand.Reader), testSet(b, 1), now), atSender, forged, false},
		{"for another group", seal(newSealer(1, rand.Reader), set, now), 100, forged, false},
		{"old", seal(newSealer(0, rand.Reader), set, now.Add(-time.Hour)), 100, stale, false},
		{"replayed", good, 0, replayed, false},
		{"changed, of an active sender", seal(live, set, now), 100, forged, false},
		{"changed, of an unknown sender", seal(newSealer(0, rand.Reader), set, now), 100, forged, true},
		{"changed, of a candidate", seal(newSealer(0, rand.Reader), set, now), 100, forged, false},
		{"the same beyond 20000/s", seal(newSealer(0, rand.Reader), set, now), 100, deferred, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			o := testOpener(b, set)
			if v := o.open(append([]byte(nil), good...), 0, 0); v != accepted {
				b.Fatalf("verdict %d, want accepted", v)
			}
			if c.want == deferred {
				o.trials.left = 0
			}
			p := append([]byte(nil), c.packet...)
			b.ReportAllocs()
			for i := 1; b.Loop(); i++ {
				if c.change > 0 {
					binary.LittleEndian.PutUint64(p[c.change:], uint64(i))
				}
				if c.more {
					o.trials.left = 2
					clear(o.candidates.all)
				}
				if v := o.open(p, 0, 0); v != c.want {
					b.Fatalf("verdict %d, want %d", v, c.want)
				}
			}
		})
	}
}
