package web

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// A frame that cannot be encoded is not dropped: browsers receive the reason, and a late browser
// receives the earlier points.
func TestUnwritableFrame(t *testing.T) {
	m, h := newModel(), newHub("x")
	c, _ := h.enter()
	for i, index := range []int{0, 100000, 0} {
		x := app(1, start, 1, 0)
		x.Snapshot.Buses[0].Delivery.Buckets = []stats.Bucket{{Index: index, Count: uint64(i + 1)}}
		h.send(m.update(second(i), []inspect.Seen{x}, nil).marshal())
		var f Frame
		if err := json.Unmarshal(<-c, &f); err != nil || f.Sequence != uint64(i+1) || len(f.Point) != numbers || f.Point[0] != float64(second(i).UnixMilli()) {
			t.Errorf("frame %d: %+v, error %v, want sequence %d and %d numbers at %v", i, f, err, i+1, numbers, second(i))
		}
		if broken := index != 0; strings.Contains(f.Error, "cannot be shown") != broken || f.Processes == nil || f.Map.Links == nil {
			t.Errorf("frame %d: error %q, processes %v, want an error: %v", i, f.Error, f.Processes, broken)
		}
	}
	if c, first := h.enter(); c == nil || strings.Count(string(first), "[17") != 4 {
		t.Errorf("a late browser receives %s, want 4 points", first)
	}
	if f := newModel().update(start, nil, nil); len(f.Point) != numbers {
		t.Errorf("a point has %d numbers, want %d", len(f.Point), numbers)
	}
	f := emptyFrame(1)
	f.Point = []float64{1, math.Inf(1)}
	if instead, text := f.marshal(); len(text) == 0 || instead == f {
		t.Errorf("a point that cannot be written: %s", text)
	}
}
