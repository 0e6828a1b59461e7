package signed

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"testing"

	"github.com/fanfaremq/fanfare/internal/wire"
)

func BenchmarkSend(b *testing.B) {
	for _, n := range []int{1, 8, 44, 128} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := newRig(b)
			r.f.sent = nil
			var packets [][]byte
			for range n {
				packets = append(packets, content(r.id, 5, 1240))
			}
			out := outbound(packets...)
			b.ReportAllocs()
			for b.Loop() {
				r.tx.Send(out)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/packet")
		})
	}
}

func BenchmarkCheck(b *testing.B) {
	for _, n := range []int{1, 8, 44, 128} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := newRig(b)
			var packets [][]byte
			for range n {
				packets = append(packets, content(r.id, 5, 1240))
			}
			var trains [][][]byte
			for range recentTrains {
				trains = append(trains, r.send(b, packets...))
			}
			v := r.verifier(b)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if i%recentTrains == 0 {
					clear(v.streams.all)
					v.streams.last = nil
					v.work.left = recentTrains // otherwise they are deferred
				}
				for _, p := range trains[i%recentTrains] {
					v.Check(p, 0)
				}
				i++
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/packet")
		})
	}
}

// The cost of hostile packets: docs/security.md.
func BenchmarkHostile(b *testing.B) {
	r := newRig(b)
	good := r.send(b, content(r.id, 5, 1240), content(r.id, 5, 1240))
	next := r.send(b, content(r.id, 5, 1240))[0]
	change := func(p []byte, f func(b []byte)) []byte {
		p = bytes.Clone(p)
		f(p)
		return p
	}
	for _, c := range []struct {
		name string
		p    []byte
		free bool // without the budget
	}{
		{"unsigned", wire.Content(good[0]), false},
		{"untrusted", change(good[0], func(b []byte) { b[wire.SignedHead(1)+atPublisher+5]++ }), false},
		{"of a verified train", change(good[0], func(b []byte) { b[len(b)-1]++ }), false},
		{"replayed", good[1], false},
		{"forged", change(next, func(b []byte) { b[30]++ }), true},
		{"forged, in a flood", change(next, func(b []byte) { b[30]++ }), false},
	} {
		b.Run(c.name, func(b *testing.B) {
			v := r.verifier(b)
			v.Check(good[1], 0)
			for b.Loop() {
				if c.free {
					v.fails.left, v.streams.last.fails.left = 100, 100
				}
				v.Check(c.p, 0)
			}
		})
	}
}

// The cost of a signature alone, for comparison.
func BenchmarkEd25519(b *testing.B) {
	key, msg := testKey(1), make([]byte, 53)
	b.Run("sign", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ed25519.Sign(key, msg)
		}
	})
	signature := ed25519.Sign(key, msg)
	b.Run("verify", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ed25519.Verify(publicOf(key), msg, signature)
		}
	})
}
