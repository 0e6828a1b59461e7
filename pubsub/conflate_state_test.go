package pubsub

import (
	"encoding/binary"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// A conflating subscription may begin with state: records are conflated by key like messages. For each key the newest
// record or message is delivered; the end of the state is delivered once; and everything is counted.
func TestConflateBeginsWithState(t *testing.T) {
	eachFabric(t, func(t *testing.T, url string) {
		const keys, before, after = 50, 120, 30
		ctx := testContext(t)
		pubBus, subBus := openBus(t, Config{}, url), openBus(t, Config{}, url)
		pub := publisher(t, pubBus, "x")
		var mu sync.Mutex
		book := make(map[uint32]uint64) // under mu
		err := pub.State(func(w *StateWriter) error {
			mu.Lock()
			defer mu.Unlock()
			var record [12]byte
			for k, n := range book {
				binary.LittleEndian.PutUint32(record[:], k)
				binary.LittleEndian.PutUint64(record[4:], n)
				if err := w.Write(record[:]); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		put := func(k uint32, n uint64) {
			mu.Lock()
			defer mu.Unlock()
			publishKeyed(t, ctx, pub, k, n, 0)
			book[k] = n
		}
		for n := range uint64(before) {
			put(uint32(n%keys), n)
		}
		keyed := 0 // counts the records of state passed to the key function
		sub := subscribe(t, subBus, "x", From(State), Conflate(func(m Message) []byte {
			if m.IsState() {
				keyed++
			}
			return m.Data[:4]
		}))
		waiting := func(done func(stats.Subscription) bool) {
			t.Helper()
			for st := sub.Stats(); !done(st); st = sub.Stats() {
				if ctx.Err() != nil {
					t.Fatalf("statistics %+v do not reach the wanted values", st)
				}
				time.Sleep(time.Millisecond)
			}
		}
		waiting(func(st stats.Subscription) bool { return st.Waiting == keys+1 }) // + 1: the end of the state
		for n := range uint64(after) {
			put(uint32(n), before+n)
		}
		waiting(func(st stats.Subscription) bool { return st.Replaced == after })
		got, records, ends := make(map[uint32]uint64), 0, 0
		batch := make([]Message, 7)
		for sub.Stats().Waiting > 0 {
			n, err := sub.NextBatch(ctx, batch)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range batch[:n] {
				if m.IsStateEnd() {
					ends++
					continue
				}
				k, n := binary.LittleEndian.Uint32(m.Data), binary.LittleEndian.Uint64(m.Data[4:])
				if m.IsState() != (k >= after) {
					t.Errorf("key %d is of the state: %v", k, m.IsState())
				}
				if m.IsState() {
					records++
				}
				got[k] = n
			}
		}
		if !maps.Equal(got, book) {
			t.Errorf("got %v, want %v", got, book)
		}
		if st := sub.Stats(); ends != 1 || keyed != keys || records != keys-after || st.Messages != after {
			t.Errorf("%d ends, %d records keyed and %d read: %+v, want 1 end, %d keyed, %d records and %d messages", ends, keyed, records, st, keys, keys-after, after)
		}
	})
}
