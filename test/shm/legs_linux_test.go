package shm

import (
	"fmt"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub"
)

// Subscribers with both legs and with either one receive a publisher over UDP and shared memory,
// each message once and in order.
func TestLegs(t *testing.T) {
	wire := fmt.Sprintf("udp://?iface=lo&port=%d", testenv.Port(t))
	memory := "shm://legs?dir=" + scratch(t)
	open := func(url string, legs ...string) *pubsub.Bus {
		t.Helper()
		bus, err := pubsub.Config{}.Open(t.Context(), url, legs...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { bus.Close() })
		return bus
	}
	from := open(wire, memory)
	pub, err := from.Publisher(topic)
	if err != nil {
		t.Fatal(err)
	}
	subs := make(map[string]*pubsub.Subscription)
	for name, bus := range map[string]*pubsub.Bus{"both": open(memory, wire), "memory": open(memory), "wire": open(wire)} {
		if subs[name], err = bus.Subscribe(topic); err != nil {
			t.Fatal(err)
		}
	}
	if err := pub.WaitSubscribers(t.Context(), len(subs)); err != nil {
		t.Fatal(err)
	}
	const n = 2000
	for i := range n {
		if err := pub.Publish(t.Context(), fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := pub.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, sub := range subs {
		for i := range n {
			m, err := sub.Next(t.Context())
			if err != nil || string(m.Data) != fmt.Sprint(i) {
				t.Fatalf(`%s: message %d is %q, error %v, want "%[2]d"`, name, i, m.Data, err)
			}
		}
	}
}
