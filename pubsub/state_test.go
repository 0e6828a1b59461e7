package pubsub

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// stateOf reads the state that a subscription begins with, and the number that follows.
func stateOf(t *testing.T, ctx context.Context, s *Subscription) (records []string, number uint64) {
	t.Helper()
	for {
		m, err := s.Next(ctx)
		switch {
		case err != nil:
			t.Error(err)
			return nil, 0
		case !m.IsState():
			t.Errorf("message %d %q before the end of the state, want records of the state only", m.Number, m.Data)
			return nil, 0
		case m.IsStateEnd():
			return records, m.Number
		}
		records = append(records, string(m.Data))
	}
}

// With Retain a subscription begins with the last message published before it, and continues with the next one.
// docs/protocol §25.
func TestRetain(t *testing.T) {
	eachFabric(t, func(t *testing.T, url string) {
		ctx := testContext(t)
		pub := publisher(t, openBus(t, Config{}, url), "x")
		if err := pub.Retain(); err != nil {
			t.Fatal(err)
		}
		there := openBus(t, Config{}, url)
		n := 0
		for range 5 {
			s := subscribe(t, there, "x", From(State))
			got, next := stateOf(t, ctx, s)
			if n == 0 && (got != nil || next != 0) || n > 0 && (len(got) != 1 || got[0] != fmt.Sprint("message ", n-1) || next != uint64(n)) {
				t.Fatalf("%s: state %q as of %d, want the last of %d messages", url, got, next, n)
			}
			for range 10 {
				publish(t, ctx, pub, fmt.Sprint("message ", n))
				n++
			}
			if first, gaps := readNumbers(t, ctx, s, uint64(n-1)); first != next || gaps != nil {
				t.Fatalf("%s: continues with %d, gaps %v, want %d and none", url, first, gaps, next)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A pattern begins with the state of each matching topic, in every group, with a StateError for each topic without
// state; topics created later are delivered from their first message on. docs/protocol §25.9.
func TestStateOfPattern(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	eachFabric(t, func(t *testing.T, url string) {
		ctx := testContext(t)
		bus := openBus(t, Config{}, url)
		live := subscribe(t, openBus(t, Config{}, url), "md.>")
		const topics = 40
		for i := range topics {
			pub := publisher(t, bus, fmt.Sprint("md.", i))
			if i%4 > 0 {
				if err := pub.Retain(); err != nil {
					t.Fatal(err)
				}
			}
			wait(t, ctx, pub, 1)
			for n := range i%3 + 1 {
				publish(t, ctx, pub, fmt.Sprint(i, " ", n))
				if _, err := live.Next(ctx); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := publisher(t, bus, "other").Retain(); err != nil {
			t.Fatal(err)
		}
		s := subscribe(t, openBus(t, Config{}, url), "md.>", From(State))
		state, record := make(map[string]string), ""
		for len(state) < topics {
			m, err := s.Next(ctx)
			var none *StateError
			switch {
			case errors.As(err, &none) && none.Cause == events.StateNotKept:
				state[none.Topic] = "none"
			case err != nil || !m.IsState():
				t.Fatalf("%s: message %+v, error %v, want state, %d of %d topics have begun", url, m, err, len(state), topics)
			case m.IsStateEnd():
				state[m.Topic] = fmt.Sprint(record, " as of ", m.Number)
			default:
				record = string(m.Data)
			}
		}
		for i := range topics {
			want := "none"
			if i%4 > 0 {
				want = fmt.Sprint(i, " ", i%3, " as of ", i%3+1)
			}
			if got := state[fmt.Sprint("md.", i)]; got != want {
				t.Errorf("%s: topic %d begins with %q, want %q", url, i, got, want)
			}
		}
		if err := s.Add("other.>"); !errors.Is(err, ErrWildcard) {
			t.Errorf("%s: adding a pattern: error %v, want %v", url, err, ErrWildcard)
		}
		late := publisher(t, bus, "md.late")
		publish(t, ctx, late, "first")
		if m, err := s.Next(ctx); err != nil || m.IsState() || m.Topic != "md.late" || m.Number != 0 {
			t.Errorf("%s: message %+v, error %v, want an ordinary message of md.late with number 0", url, m, err)
		}
	})
}

// A subscription that cannot begin with state gets a StateError with the cause, and new messages.
func TestNoState(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	ctx := testContext(t)
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		keep  func(x, other *Publisher) error
		cause events.StateCause
	}{
		"nothing is kept":  {func(x, other *Publisher) error { return nil }, events.StateNotKept},
		"of another topic": {func(x, other *Publisher) error { return other.Retain() }, events.StateNotKept},
		"it cannot be made": {func(x, other *Publisher) error {
			return x.State(func(*StateWriter) error { return broken })
		}, events.StateUnmade},
		"a record too large": {func(x, other *Publisher) error {
			return x.State(func(w *StateWriter) error { return w.Write(make([]byte, 3000)) })
		}, events.StateTooLarge},
		"the publisher ends": {func(x, other *Publisher) error {
			block := make(chan struct{})
			t.Cleanup(func() { close(block) })
			return x.State(func(w *StateWriter) error { <-block; return nil })
		}, events.StatePublisherGone},
	} {
		t.Run(name, func(t *testing.T) {
			url := memURL(t)
			bus := openBus(t, Config{Logger: quiet, Linger: -1}, url)
			x, other := publisher(t, bus, "x"), publisher(t, bus, "y")
			if err := c.keep(x, other); err != nil {
				t.Fatal(err)
			}
			s := subscribe(t, openBus(t, Config{MaxMessage: 2000}, url), "x", Topics("y"), From(State))
			if c.cause == events.StatePublisherGone {
				wait(t, ctx, x, 1)
				go bus.Close()
			}
			var err *StateError
			for {
				m, e := s.Next(ctx)
				if errors.As(e, &err) && err.Topic == "x" {
					break
				}
				if e != nil && !errors.Is(e, ErrNoState) || !m.IsState() && e == nil {
					t.Fatalf("message %v, error %v, want state or %v", m, e, ErrNoState)
				}
			}
			if !errors.Is(err, ErrNoState) || err.Cause != c.cause || err.Publisher != bus.ID() {
				t.Errorf("error %v, want %v of cause %v, publisher %v", err, ErrNoState, c.cause, bus.ID())
			}
			if c.cause == events.StatePublisherGone {
				return
			}
			publish(t, ctx, x, "live")
			for {
				m, err := s.Next(ctx)
				if err == nil && !m.IsState() && string(m.Data) == "live" {
					break
				}
				if err != nil && !errors.Is(err, ErrNoState) {
					t.Fatal(err)
				}
			}
		})
	}
}

// sums is a state that publisher and subscribers compute from the messages: 64 sums.
type sums struct {
	mu  sync.Mutex
	n   uint64
	sum [64]uint64
}

func (l *sums) apply(n uint64) {
	l.sum[n%uint64(len(l.sum))] += n
	l.n = n + 1
}

func (l *sums) write(w *StateWriter) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if next, err := w.Begin(); err != nil || next != l.n {
		return fmt.Errorf("number %d, %d were published: %w", next, l.n, err)
	}
	for i, x := range l.sum {
		if err := w.Write(fmt.Appendf(nil, "%d %d %0300d", i, x, 0)); err != nil {
			return err
		}
	}
	return nil
}

// join builds sums from the state that a subscription delivers and the next messages, and compares it with the
// publisher's at some of them.
func (l *sums) join(t *testing.T, ctx context.Context, s *Subscription, messages int) {
	records, number := stateOf(t, ctx, s)
	for i, r := range records {
		var j, zero int
		if _, err := fmt.Sscan(r, &j, &l.sum[i], &zero); err != nil || i != j {
			t.Errorf("record %d is %q, want number %d first", i, r, i)
		}
	}
	if l.n = number; len(records) != len(l.sum) {
		t.Errorf("%d records, want %d", len(records), len(l.sum))
		return
	}
	for k := range messages {
		m, err := s.Next(ctx)
		if err != nil || m.IsState() || m.Number != l.n || string(m.Data) != fmt.Sprint("message ", l.n) {
			t.Errorf("message after the state: %+v, error %v, want \"message %d\"", m, err, l.n)
			return
		}
		l.apply(m.Number)
		if want := sumOf(l.n); k%50 == 0 && l.sum != want {
			t.Errorf("as of %d: %v, want %v", l.n, l.sum, want)
			return
		}
	}
}

// sumOf returns the sums of the first n messages.
func sumOf(n uint64) (sum [64]uint64) {
	const size = uint64(len(sum))
	for i := range size {
		if n > i {
			k := (n - 1 - i) / size // messages i, i+64, … i+64k
			sum[i] = (k+1)*i + size*k*(k+1)/2
		}
	}
	return sum
}

// 50 subscriptions join a running feed over sockets, with 1 % loss: the state that each computes equals the
// publisher's at every number checked.
func TestFiftyJoinsWithStateUnderLoss(t *testing.T) {
	if testing.Short() {
		t.Skip("50 joins over sockets at 1 % loss: skipped with -short")
	}
	bus, url := stateBus(t)
	pub := publisher(t, bus, "x")
	fiftyJoins(t, bus, url, pub.Publish, pub.State)
}

func stateBus(t *testing.T) (bus *Bus, url string) {
	url = udpURL(t)
	return openBus(t, Config{Faults: "loss=0.01,seed=7"}, url), url
}

func fiftyJoins(t *testing.T, bus *Bus, url string, publish func(context.Context, []byte) error, state func(func(*StateWriter) error) error) {
	ctx := testContext(t)
	var books sums
	if err := state(books.write); err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for n := uint64(0); ; n++ {
			books.mu.Lock()
			err := publish(ctx, fmt.Append(nil, "message ", n))
			books.apply(n)
			books.mu.Unlock()
			if err != nil {
				t.Error(err)
				return
			}
			if n%50 == 0 {
				time.Sleep(time.Millisecond)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	var joins sync.WaitGroup
	for i := range 10 {
		there := openBus(t, Config{Faults: fmt.Sprint("loss=0.01,seed=", i+1)}, url)
		for range 5 {
			s := subscribe(t, there, "x", From(State))
			joins.Go(func() {
				defer s.Close()
				new(sums).join(t, ctx, s, 500)
			})
			time.Sleep(5 * time.Millisecond)
		}
	}
	joins.Wait()
	close(stop)
	<-stopped
	st := bus.Stats().Publications[0]
	t.Logf("%d rounds with %d bytes of state, %d messages", st.StateRounds, st.StateBytes, st.MessagesSent)
}

// State larger than the receive window is not delivered, even if nothing is published meanwhile: the error has the
// size of the window and the field to raise. With a larger one the state arrives. docs/protocol §25.8.
func TestStateLargerThanTheWindow(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	ctx := testContext(t)
	url := memURL(t)
	pubBus := openBus(t, Config{}, url)
	const records, size = 5, 1 << 20
	if err := publisher(t, pubBus, "x").State(func(w *StateWriter) error {
		for range records {
			if err := w.Write(make([]byte, size)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	begin := func(memory int) (got int, err error) {
		sub := subscribe(t, openBus(t, Config{ReceiveWindowBytes: 1 << 20, ReceiveMemoryBytes: memory}, url), "x", From(State))
		defer sub.Close() // otherwise the publisher waits for it until StallLimit
		for {
			m, err := sub.Next(ctx)
			if err != nil || m.IsStateEnd() {
				return got, err
			}
			got += len(m.Data)
		}
	}
	_, err := begin(16 << 20)
	var none *StateError
	if !errors.As(err, &none) || none.Cause != events.StateOverrun || none.Room < 4<<20 || none.Room >= records*size {
		t.Fatalf("error %v (%+v), want a StateError of cause %v with room for 4 MiB to %d bytes", err, none, events.StateOverrun, records*size)
	}
	if text := none.Error(); !strings.Contains(text, fmt.Sprintf("no room for it and the messages published meanwhile, which is %d bytes; raise ReceiveMemoryBytes", none.Room)) {
		t.Errorf("error text %q, want that %d bytes are too little room, and ReceiveMemoryBytes", text, none.Room)
	}
	if got, err := begin(32 << 20); err != nil || got != records*size {
		t.Errorf("with twice the memory %d bytes arrived, error %v, want %d", got, err, records*size)
	}
}
