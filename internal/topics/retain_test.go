package topics

import (
	"fmt"
	"slices"
	"testing"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/internal/wiretest"
)

// A reader that calls Retain anywhere in a packet delivers the rest of the packet after its memory is overwritten.
func TestRetain(t *testing.T) {
	packet := slices.Concat(
		wiretest.Run(wire.RunMessages, "a.b", 0, "\x03\x00one\x03\x00two\x05\x00three"),
		wiretest.Run(wire.RunMessages, "other", 0, "\x03\x00not"),
		wiretest.Run(wire.RunMessages, "c", 7, "\x04\x00four\x00\x00"),
		wiretest.Run(wire.RunFragment, "a.b", 3, "\x04\x00\x00\x00\x00\x00\x00\x00five"),
	)
	read := func(stop int) (items []string) {
		rd := NewReader(0, 1<<20)
		for _, name := range wholeTopics {
			rd.Want(wire.TopicID(name), name, nil)
		}
		p := slices.Clone(packet)
		rd.Packet(p)
		var it Item
		var rest []byte
		for n := 0; ; n++ {
			if n == stop {
				rest = rd.Retain(rest[:0])
				clear(p)
			}
			if !rd.Next(&it) {
				return items
			}
			items = append(items, fmt.Sprintf("%s %d %q lost %d", it.Topic.Name, it.Number, it.Data, it.Lost))
		}
	}
	want := read(-1)
	if len(want) != 7 { // six messages, and the gap before the first of c
		t.Fatalf("items %q, want 7", want)
	}
	for stop := range want {
		if got := read(stop); !slices.Equal(got, want) {
			t.Errorf("stopped before item %d: %q, want %q", stop, got, want)
		}
	}
}
