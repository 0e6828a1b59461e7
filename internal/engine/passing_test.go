package engine

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"runtime"
	"testing"

	"github.com/fanfaremq/fanfare/internal/pattern"
)

var passing = flag.Int("passing", 20_000, "number of `topics` in TestPassingTopics")

// A publisher goes through many topics in turn, and returns to each: forgotten topics cost no memory, and subscribers
// by a pattern get each message exactly once, though packets are lost. docs/protocol §10.8, §10.9.
func TestPassingTopics(t *testing.T) {
	const keep = 1024
	w, ctx := newWorld(1), context.Background()
	w.config.TopicRuns = keep
	a, b := w.open(t, "publisher", 0.05), w.open(t, "subscriber", 0.05)
	n, read, got := uint64(*passing), uint64(0), uint64(0)
	follow := func(reader string, count *uint64, data []byte) {
		if i := binary.LittleEndian.Uint64(data); i != *count {
			t.Fatalf("%s: message %d, want %d", reader, i, *count)
		}
		*count++
	}
	all, err := pattern.Parse("t.>")
	must(t, err)
	name := TopicName{Name: all.String(), Pattern: all}
	w.Go(func() {
		subscribeTo(t, b, name, policyBlock, messages(func(data []byte) { follow("handler", &got, data) }))
		cursor := subscribeTo(t, b, name, policyBlock, nil)
		var d Delivery
		for cursor.Next(ctx, &d) == nil {
			if d.Event != nil || d.Gap() {
				t.Errorf("cursor: event %v, gap %+v at message %d", d.Event, d.Item, read)
				continue
			}
			follow("cursor", &read, d.Data)
		}
	})
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var before, after uint64
	w.Go(func() {
		for i := range n {
			if i == n/4 {
				before = heap()
			}
			p, topic := publication(t, a, fmt.Sprintf("t.%d", i%(n/3)))
			if i == 0 {
				must(t, p.WaitReceivers(ctx, topic.ID, 1))
			}
			must(t, p.Publish(ctx, topic, binary.LittleEndian.AppendUint64(nil, i), true))
			p.Release(topic)
		}
		p, _ := publication(t, a, "t.0")
		must(t, p.Drain(ctx))
		after = heap()
		if most := keep + keep/8; p.m.Topics() > most || len(b.groups[0].topics) > most {
			t.Errorf("the publisher remembers %d topics, the subscriber %d, want %d at most", p.m.Topics(), len(b.groups[0].topics), most)
		}
		must(t, a.Close(ctx))
		must(t, b.Close(ctx))
	})
	for !a.Ended() || !b.Ended() {
		w.step()
	}
	w.Stop()
	if got != n || read != n {
		t.Errorf("the handler got %d messages, the cursor %d, want %d", got, read, n)
	}
	t.Logf("%d topics: heap of %d bytes after a quarter, %d at the end", n, before, after)
	if after > before+before/4+1<<20 {
		t.Errorf("the heap grew from %d to %d bytes", before, after)
	}
}
