package fanfare

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub"
)

// fabrics returns the URL of a new fabric of each kind that the tests use.
var fabrics = map[string]func(t testing.TB) string{
	"mem": func(t testing.TB) string {
		return "mem://" + strings.NewReplacer("/", "_").Replace(t.Name()) + "?size=1472"
	},
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

func open(t testing.TB, config pubsub.Config, url string) *pubsub.Bus {
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

func newPublisher(t testing.TB, bus *pubsub.Bus, config PublisherConfig) *Publisher {
	t.Helper()
	p, err := NewPublisher(bus, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func newSubscriber(t testing.TB, bus *pubsub.Bus, config SubscriberConfig) *Subscriber {
	t.Helper()
	s, err := NewSubscriber(bus, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func subscribe(t testing.TB, s *Subscriber, topic string) <-chan *message.Message {
	t.Helper()
	out, err := s.Subscribe(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// next returns the next message without acking it, or nil at the end.
func next(t testing.TB, out <-chan *message.Message) *message.Message {
	t.Helper()
	select {
	case msg := <-out:
		return msg
	case <-time.After(30 * time.Second):
		t.Fatal("no message in 30 s")
		return nil
	}
}

// noGoroutines fails the test if it ends with more goroutines than now.
func noGoroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		for range 60_000 { // a goroutine may take a moment to exit
			if runtime.NumGoroutine() <= before {
				return
			}
			time.Sleep(time.Millisecond)
		}
		buf := make([]byte, 1<<20)
		t.Errorf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), buf[:runtime.Stack(buf, true)])
	})
}
