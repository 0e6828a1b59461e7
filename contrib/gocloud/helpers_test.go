package fanfarepubsub

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	fanfare "github.com/fanfaremq/fanfare/pubsub"
)

// fabrics are those that each test runs on.
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
			t.Errorf("close bus: %v", err)
		}
	})
	return bus
}

// noGoroutines fails the test if more goroutines are left at its end than now.
func noGoroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		for range 60_000 { // those that have ended may take a moment to go
			if runtime.NumGoroutine() <= before {
				return
			}
			time.Sleep(time.Millisecond)
		}
		buf := make([]byte, 1<<20)
		t.Errorf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), buf[:runtime.Stack(buf, true)])
	})
}
