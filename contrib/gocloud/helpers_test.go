package fanfarepubsub

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	fanfare "github.com/fanfaremq/fanfare/pubsub"
)

// fabrics returns the URL of a new fabric of each kind that the tests use.
var fabrics = map[string]func(t testing.TB) string{
	"mem": func(t testing.TB) string { return "mem://" + strings.NewReplacer("/", "_").Replace(t.Name()) },
	"udp": func(t testing.TB) string {
		if runtime.GOOS != "linux" {
			t.Skip("multicast on the loopback interface needs Linux")
		}
		return fmt.Sprintf("udp://239.20.0.0/16?iface=lo&port=%d", testenv.Port(t))
	},
}

func onEach(t *testing.T, test func(t *testing.T, url string)) {
	for name, url := range fabrics {
		t.Run(name, func(t *testing.T) { test(t, url(t)) })
	}
}

func open(t testing.TB, config fanfare.Config, url string) *fanfare.Bus {
	t.Helper()
	bus, err := config.Open(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bus.Close(); err != nil {
			t.Errorf("the bus cannot be closed: %v", err)
		}
	})
	return bus
}

// noGoroutines fails the test if it ends with more goroutines than now.
func noGoroutines(t *testing.T) {
	before, _ := goroutines()
	t.Cleanup(func() {
		for range 60_000 { // a goroutine may take a moment to exit
			if n, _ := goroutines(); n <= before {
				return
			}
			time.Sleep(time.Millisecond)
		}
		n, stacks := goroutines()
		t.Errorf("%d goroutines before, %d after:\n%s", before, n, stacks)
	})
}

// goroutines counts goroutines without those that gocloud.dev/pubsub leaks: one that signals a
// Receive blocks forever on its channel if Receive found messages without waiting.
func goroutines() (n int, stacks []byte) {
	stacks = make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for g := range bytes.SplitSeq(stacks, []byte("\n\n")) {
		if !bytes.Contains(g, []byte("[chan send")) || !bytes.Contains(g, []byte("\ngocloud.dev/pubsub.(*Subscription).Receive.func")) {
			n++
		}
	}
	return n, stacks
}
