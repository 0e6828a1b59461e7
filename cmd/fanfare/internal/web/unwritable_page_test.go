package web

import (
	"context"
	"testing"

	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// The page shows the reason if it has no data, and its script continues.
func TestInBrowserUnwritableFrame(t *testing.T) {
	testenv.Slow(t)
	b := startBrowser(t)
	n := uint64(0)
	s := serve(t, "localhost:0", func(context.Context) ([]inspect.Seen, error) {
		n++
		x := app(1, start, 1, 0)
		x.Snapshot.Buses[0].Delivery.Buckets = []stats.Bucket{{Index: 100000, Count: n}}
		return []inspect.Seen{x}, nil
	})
	defer s.Close()
	b.open("http://"+s.Addr()+"/", 1280, 900, false)
	b.await(`document.body?.dataset.sequence > 2 && document.getElementById("verdict")?.textContent.includes("cannot be shown")`)
	if c := b.complaints(); c != "" {
		t.Errorf("the page's script reports an error: %s", c)
	}
}
