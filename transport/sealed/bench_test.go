package sealed

import (
	"crypto/rand"
	"encoding/binary"
	"testing"
	"time"
)

// What sealing and opening a packet costs, by its size.
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
				if v := o.open(packets[i%40], 0, 0); v != taken {
					b.Fatal(v)
				}
			}
		})
	}
}

// What a hostile packet of each kind costs a receiver (docs/security.md): to be compared with
// BenchmarkOpen, which is what a good one costs. docs/protocol §27.6.
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
		change int // the existing keys, each time
		want   verdict
		more   bool // without a bound on senders that are not known
	}{
		{"not Fanfare's", make([]byte, 1472), 100, foreign, false},
		{"open", append([]byte("Ff\x01\x01"), make([]byte, 1468)...), 100, unsealed, false},
		{"with an unknown key", seal(newSealer(0, rand.Reader), testSet(b, 2), now), 100, unknownKey, false},
		{"with an invented salt", seal(newSealer(0, rand.Reader), testSet(b, 1), now), atSender, forged, false},
		{"of another group", seal(newSealer(1, rand.Reader), set, now), 100, forged, false},
		{"old", seal(newSealer(0, rand.Reader), set, now.Add(-time.Hour)), 100, stale, false},
		{"played back", good, 0, replayed, false},
		{"changed, of a live sender", seal(live, set, now), 100, forged, false},
		{"changed, of a sender not known", seal(newSealer(0, rand.Reader), set, now), 100, forged, true},
		{"changed, of a candidate", seal(newSealer(0, rand.Reader), set, now), 100, forged, false},
		{"the same beyond 20000/s", seal(newSealer(0, rand.Reader), set, now), 100, deferred, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			o := testOpener(b, set)
			if v := o.open(append([]byte(nil), good...), 0, 0); v != taken {
				b.Fatal(v)
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
