package pubsub

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// If a bus is closed while a large message is being published, the stream ends after that message, for which Publish
// returns nil.
func TestCloseInTheMiddleOfAMessage(t *testing.T) {
	testenv.Slow(t)
	for range 10 {
		ctx := testContext(t)
		url := "mem://" + t.Name()
		pubBus, subBus := openBus(t, Config{}, url), openBus(t, Config{}, url)
		s := subscribe(t, subBus, "x", PublisherEvents())
		defer s.Close()
		p := publisher(t, pubBus, "x")
		wait(t, ctx, p, 1)
		large := bytes.Repeat([]byte("0123456789abcdef"), 1<<20) // twice the window
		begun, done := make(chan struct{}), make(chan error, 1)
		go func() {
			close(begun)
			done <- p.TryPublish(large)
		}()
		<-begun
		time.Sleep(3 * time.Millisecond) // so that publishing is most likely in progress
		closed := make(chan error, 1)
		go func() { closed <- pubBus.Close() }()
		got := false
		for m, err := range s.Messages(ctx) {
			var e *PublisherEvent
			if err == nil {
				got = bytes.Equal(m.Data, large)
			} else if !errors.As(err, &e) {
				t.Errorf("Next: error %v, want a message or a PublisherEvent", err)
			} else if e.Kind == events.PublisherEnded {
				break
			}
		}
		if err := <-done; (err == nil) != got {
			t.Errorf("Publish returned %v, the message arrived: %v, want both or neither", err, got)
		}
		if err := <-closed; err != nil {
			t.Errorf("closing the publisher: %v", err)
		}
		subBus.Close()
	}
}

// If a publisher is closed while the State function of another one runs, its own State function is not called any more.
func TestCloseWhileStateIsMade(t *testing.T) {
	ctx := testContext(t)
	url := "mem://" + t.Name() + "?groups=1"
	pubBus, subBus := openBus(t, Config{}, url), openBus(t, Config{}, url)
	one, two, three := publisher(t, pubBus, "s.one"), publisher(t, pubBus, "s.two"), publisher(t, pubBus, "s.three")
	making, goOn := make(chan struct{}), make(chan struct{})
	state := func(p *Publisher, make func(w *StateWriter) error) {
		t.Helper()
		if err := p.State(make); err != nil {
			t.Fatal(err)
		}
	}
	state(one, func(w *StateWriter) error {
		close(making)
		<-goOn
		return w.Write([]byte("1"))
	})
	state(two, func(w *StateWriter) error {
		t.Error("the State function of a closed publisher was called")
		return nil
	})
	state(three, func(w *StateWriter) error { return w.Write([]byte("3")) })
	s := subscribe(t, subBus, "s.>", From(State))
	defer s.Close()
	<-making
	if err := two.Close(ctx); err != nil {
		t.Fatal(err)
	}
	close(goOn)
	got := map[string]string{}
	for len(got) < 2 {
		m, err := s.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if m.IsState() && !m.IsStateEnd() {
			got[m.Topic] = string(m.Data)
		}
	}
	if got["s.one"] != "1" || got["s.three"] != "3" {
		t.Errorf("state %v, want s.one 1 and s.three 3", got)
	}
}
