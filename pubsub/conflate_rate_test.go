package pubsub

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// publishQuietKeys publishes messages of 10,000 keys without pauses, as publishKeyed does. In the second half of the
// messages half of the keys do not occur. It returns the last number of each key.
func publishQuietKeys(t *testing.T, pub *Publisher, messages int) (last []uint64) {
	t.Helper()
	const keys = 10_000
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	last = make([]uint64, keys)
	ctx, msg := testContext(t), make([]byte, 64)
	for n := range uint64(messages) {
		k := rng.IntN(keys)
		if n > uint64(messages/2) {
			k %= keys / 2
		}
		binary.LittleEndian.PutUint32(msg, uint32(k))
		binary.LittleEndian.PutUint64(msg[4:], n)
		if err := pub.Publish(ctx, msg); err != nil {
			t.Fatalf("publishing message %d: %v", n, err)
		}
		last[k] = n
	}
	if err := pub.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	return last
}

// In real time, at full rate and with a small window, messages arrive faster than the key function runs, and the
// reader reads one now and then. The publisher waits for the key function, not for the reader: no message is lost,
// and each key ends with its last value, also keys without recent messages.
func TestConflateAtFullRate(t *testing.T) {
	for _, fabric := range []struct {
		name string
		url  func(testing.TB) string
	}{{"mem", memURL}, {"udp", udpURL}} {
		t.Run(fabric.name, func(t *testing.T) {
			messages := fewer(100_000)
			ctx := testContext(t)
			url := fabric.url(t)
			pubBus, subBus := openBus(t, Config{}, url), openBus(t, Config{ReceiveWindowBytes: 256 << 10}, url)
			made := 0
			key := func(m Message) []byte {
				if made++; made%500 == 0 {
					time.Sleep(time.Millisecond)
				}
				return m.Data[:4]
			}
			sub := subscribe(t, subBus, "x", Conflate(key))
			pub := publisher(t, pubBus, "x")
			wait(t, ctx, pub, 1)
			seen := make(map[uint32]uint64)
			took, slowly, done := uint64(0), atomic.Bool{}, make(chan error, 1)
			slowly.Store(true)
			go func() {
				for {
					m, err := sub.Next(ctx)
					if errors.Is(err, net.ErrClosed) {
						done <- nil
						return
					}
					if err != nil {
						done <- fmt.Errorf("after %d messages: %w", took, err)
						return
					}
					seen[binary.LittleEndian.Uint32(m.Data)] = binary.LittleEndian.Uint64(m.Data[4:])
					took++
					if slowly.Load() {
						time.Sleep(time.Millisecond)
					}
				}
			}()
			last := publishQuietKeys(t, pub, messages)
			slowly.Store(false)
			for st := sub.Stats(); st.Waiting > 0 || st.Messages+st.Replaced < uint64(messages); st = sub.Stats() {
				select {
				case err := <-done:
					t.Fatal(err)
				case <-ctx.Done():
					t.Fatalf("%d messages published: %+v", messages, st)
				case <-time.After(time.Millisecond):
				}
			}
			replaced := sub.Stats().Replaced
			sub.Close()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			stale := 0
			for k, n := range last {
				if seen[uint32(k)] != n {
					stale++
				}
			}
			if stale > 0 || took+replaced != uint64(messages) || replaced == 0 {
				t.Errorf("%d of %d keys do not end with their last value; %d read and %d replaced, of %d", stale, len(last), took, replaced, messages)
			}
		})
	}
}
