package pubsub

import (
	"context"
	"fmt"
	"testing"
)

// A topic that is added while the state of others arrives begins with messages published from then on, without state
// or StateError, whether its publisher keeps state or not; the earlier topics get their state. docs/protocol §25.6.
func TestAddWhileStateArrives(t *testing.T) {
	for _, retained := range []bool{false, true} {
		for _, handled := range []bool{false, true} {
			t.Run(fmt.Sprintf("retained %t, handled %t", retained, handled), func(t *testing.T) {
				addWhileStateArrives(t, retained, handled)
			})
		}
	}
}

func addWhileStateArrives(t *testing.T, retained, handled bool) {
	ctx := testContext(t)
	url := memURL(t) + "?groups=1" // one stream for all topics
	bus := openBus(t, Config{}, url)
	x, y := publisher(t, bus, "x"), publisher(t, bus, "y")
	if retained {
		if err := y.Retain(); err != nil {
			t.Fatal(err)
		}
		publish(t, ctx, y, "before")
	}
	made, goOn := make(chan struct{}), make(chan struct{})
	if err := x.State(func(w *StateWriter) error {
		close(made)
		<-goOn
		return w.Write([]byte("state of x"))
	}); err != nil {
		t.Fatal(err)
	}
	s, next := begunWithState(t, ctx, openBus(t, Config{}, url), handled)
	<-made // the round of state has begun, for x only
	if err := s.Add("y"); err != nil {
		t.Fatal(err)
	}
	wait(t, ctx, y, 1)
	publish(t, ctx, y, "live")
	close(goOn)
	for _, want := range []string{"x state of x true", "x  true", "y live false", "x after false"} {
		if got := next(); got != want {
			t.Fatalf("%q is delivered, want %q", got, want)
		}
		if want == "y live false" {
			publish(t, ctx, x, "after")
		}
	}
}

// begunWithState subscribes to topic x with state. next returns the next delivery as text.
func begunWithState(t *testing.T, ctx context.Context, b *Bus, handled bool) (s *Subscription, next func() string) {
	text := func(m Message, err error) string {
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(m.Topic, " ", string(m.Data), " ", m.IsState())
	}
	if !handled {
		s = subscribe(t, b, "x", From(State))
		return s, func() string { return text(s.Next(ctx)) }
	}
	said := make(chan string, 100)
	s, err := b.Handle("x", func(m Message, err error) { said <- text(m, err) }, From(State))
	if err != nil {
		t.Fatal(err)
	}
	return s, func() string {
		select {
		case text := <-said:
			return text
		case <-ctx.Done():
			return ctx.Err().Error()
		}
	}
}
