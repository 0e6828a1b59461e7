package web

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/elsewhere"
	"github.com/fanfaremq/fanfare/internal/inspect"
)

// Servers that name each other, and themselves, answer: each passes on what its own host says only.
// A process that is read on all these ways is there once.
func TestServersNameEachOther(t *testing.T) {
	startLoad(t)
	var addrs atomic.Pointer[[]string]
	addrs.Store(new([]string))
	places := func() []string { return append([]string{elsewhere.Here}, *addrs.Load()...) }
	read := func(ctx context.Context) ([]inspect.Seen, error) { return elsewhere.ReadAll(ctx, places()...) }
	here := func(ctx context.Context) ([]inspect.Seen, error) { return elsewhere.ReadHere(ctx, places()...) }
	var all []string
	for range 2 {
		s, err := Serve("localhost:0", false, read, here)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		all = append(all, s.Addr())
	}
	addrs.Store(&all) // from here on both name both
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	await := func(what, socket string, read func() ([]inspect.Seen, error)) { // a busy host may be late
		t.Helper()
		for {
			seen, err := read()
			if err == nil && len(seen) == 1 && seen[0].Err == nil && strings.HasPrefix(seen[0].Socket, socket) && len(seen[0].Snapshot.Buses) == 1 {
				return
			}
			if ctx.Err() != nil {
				t.Fatalf("%s: %+v, %v", what, seen, err)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	for _, addr := range all {
		await(addr, addr+" /", func() ([]inspect.Seen, error) { return elsewhere.ReadAll(ctx, addr) })
	}
	await("by all ways", "/", func() ([]inspect.Seen, error) { return read(ctx) })
}
