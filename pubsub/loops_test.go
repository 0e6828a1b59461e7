package pubsub

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// TestLoopsSuite runs the tests of delivery, and of what goes with it, once more with three loops a bus.
func TestLoopsSuite(t *testing.T) {
	testenv.Slow(t)
	was, wasFabrics := defaultLoops, fabrics
	defer func() { defaultLoops, fabrics = was, wasFabrics }()
	defaultLoops, fabrics = 3, []testFabric{{"mem", memURL}, {"udp", udpURL}, {"shm", shmURL}}
	for _, test := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"PublishSubscribe", TestPublishSubscribe},
		{"ExclusivePublishersInOrder", TestExclusivePublishersInOrder},
		{"PublisherEvents", TestPublisherEvents},
		{"CloseUnderLoad", TestCloseUnderLoad},
		{"NoGoroutineLeft", TestNoGoroutineLeft},
		{"From", TestFrom},
		{"Retain", TestRetain},
		{"StateOfPattern", TestStateOfPattern},
		{"ConflateOrder", TestConflateOrder},
		{"HandlerBeside", TestHandlerBeside},
		{"LegsFillEachOther", TestLegsFillEachOther},
		{"Sealed", TestSealed},
		{"Signed", TestSigned},
	} {
		t.Run(test.name, func(t *testing.T) { t.Run("whole", test.run) }) // it ends when what is parallel in it has
	}
}

// loopTopics are topics of as many groups.
func loopTopics(b *Bus, n int) (topics []string) {
	seen := make(map[int]bool)
	for i := 0; len(topics) < n; i++ {
		if name := fmt.Sprintf("t.%d", i); !seen[b.Group(name)] {
			seen[b.Group(name)] = true
			topics = append(topics, name)
		}
	}
	return topics
}

// Goroutines publish on topics of several loops at once. Each way to subscribe delivers each
// topic in order and without a gap, a handler is called once at a time, and how many loops a bus
// has is its own affair: two, one and three hear the same.
func TestLoopsDeliver(t *testing.T) {
	eachFabric(t, func(t *testing.T, url string) {
		ctx := testContext(t)
		pubBus := openBus(t, Config{Loops: 3, Name: "feed"}, url)
		topics := loopTopics(pubBus, 8)
		const each = 300
		var readers sync.WaitGroup
		for _, loops := range []int{1, 2, 3} {
			bus := openBus(t, Config{Loops: loops}, url)
			sub := subscribe(t, bus, topics[0], Topics(topics[1:]...))
			batch := subscribe(t, bus, "t.*")
			readers.Go(func() { countLoops(t, ctx, sub.Next, topics, each) })
			readers.Go(func() {
				var msgs []Message
				room := make([]Message, 16)
				countLoops(t, ctx, func(ctx context.Context) (Message, error) {
					if len(msgs) == 0 {
						n, err := batch.NextBatch(ctx, room)
						if err != nil {
							return Message{}, err
						}
						msgs = room[:n]
					}
					m := msgs[0]
					msgs = msgs[1:]
					return m, nil
				}, topics, each)
			})
			var inside, all atomic.Int64
			counts, done := make(map[string]uint64), make(chan struct{})
			if _, err := bus.Handle("t.>", func(m Message, err error) {
				if inside.Add(1) != 1 {
					t.Error("a handler is called twice at once")
				}
				if err != nil || m.Number != counts[m.Topic] {
					t.Errorf("%s: number %d, want %d, error %v", m.Topic, m.Number, counts[m.Topic], err)
				}
				counts[m.Topic]++
				inside.Add(-1)
				if all.Add(1) == int64(each*len(topics)) {
					close(done)
				}
			}); err != nil {
				t.Fatal(err)
			}
			readers.Go(func() {
				select {
				case <-done:
				case <-ctx.Done():
					t.Errorf("the handler got %d messages", all.Load())
				}
			})
		}
		var publishers sync.WaitGroup
		for _, topic := range topics {
			p := publisher(t, pubBus, topic)
			wait(t, ctx, p, 3)
			publishers.Go(func() {
				for i := range each {
					if err := p.Publish(ctx, fmt.Append(nil, i)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		publishers.Wait()
		readers.Wait()
		sent, groups := uint64(0), 0
		st := pubBus.Stats()
		for i := range st.Publications {
			sent += st.Publications[i].MessagesSent
			groups++
		}
		if sent != uint64(each*len(topics)) || groups != len(topics) || st.Transport.PacketsSent == 0 {
			t.Errorf("the bus counts %d messages in %d groups, and %d packets", sent, groups, st.Transport.PacketsSent)
		}
	})
}

// countLoops reads each messages of each topic in order, from one publisher.
func countLoops(t *testing.T, ctx context.Context, next func(context.Context) (Message, error), topics []string, each int) {
	counts := make(map[string]uint64)
	var first Message
	for i := range each * len(topics) {
		m, err := next(ctx)
		if err != nil {
			t.Errorf("after %d messages: %v", i, err)
			return
		}
		if i == 0 {
			first = m
		}
		if m.Number != counts[m.Topic] || string(m.Data) != fmt.Sprint(m.Number) || m.Publisher() != first.Publisher() || m.Epoch() != first.Epoch() {
			t.Errorf("%s: number %d %q of %v, want %d of %v", m.Topic, m.Number, m.Data, m.Publisher(), counts[m.Topic], first.Publisher())
			return
		}
		counts[m.Topic]++
	}
}

// Topics of further loops can be added to a subscription, and removed; also of one with a handler.
func TestLoopsAddRemove(t *testing.T) {
	ctx := testContext(t)
	url := memURL(t)
	pubBus, subBus := openBus(t, Config{Loops: 2}, url), openBus(t, Config{Loops: 3}, url)
	topics := loopTopics(subBus, 6)
	sub := subscribe(t, subBus, topics[0])
	handled := make(chan string, 100)
	h, err := subBus.Handle(topics[0], func(m Message, err error) { handled <- m.Topic })
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Subscription{sub, h} {
		if err := s.Add(topics[1:]...); err != nil {
			t.Fatal(err)
		}
		if n := s.Stats().Topics; n != len(topics) {
			t.Errorf("%d topics, want %d", n, len(topics))
		}
	}
	for _, topic := range topics {
		p := publisher(t, pubBus, topic)
		wait(t, ctx, p, 1)
		publish(t, ctx, p, topic)
		want(t, ctx, sub, topic)
		if got := <-handled; got != topic {
			t.Errorf("the handler got %s, want %s", got, topic)
		}
	}
	if err := sub.Remove(topics[1:]...); err != nil {
		t.Fatal(err)
	}
	for _, topic := range topics[1:] {
		publish(t, ctx, publisher(t, pubBus, topic), "unwanted")
	}
	publish(t, ctx, publisher(t, pubBus, topics[0]), "last")
	want(t, ctx, sub, "last")
	if got := sub.Stats(); got.Topics != 1 || got.Messages != uint64(len(topics))+1 {
		t.Errorf("%+v", got)
	}
	if err := sub.Close(); err != nil {
		t.Fatal(err)
	}
	if err := sub.Add(topics[1]); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Add to a closed subscription: %v", err)
	}
	if _, err := sub.Next(ctx); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Next of a closed subscription: %v", err)
	}
}

// A handler of one loop is refused what waits for any loop of its bus, for that may wait for it.
func TestLoopsInHandler(t *testing.T) {
	ctx := testContext(t)
	url := memURL(t)
	pubBus, bus := openBus(t, Config{}, url), openBus(t, Config{Loops: 3}, url)
	topics := loopTopics(bus, 3)
	errs := make(chan error, 100)
	var sub *Subscription
	ready := make(chan struct{})
	sub, err := bus.Handle(topics[0], func(Message, error) {
		<-ready
		for _, topic := range topics {
			_, err := bus.Subscribe(topic)
			errs <- err
		}
		errs <- sub.Add("another")
		errs <- sub.Close()
		errs <- bus.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	close(ready)
	p := publisher(t, pubBus, topics[0])
	wait(t, ctx, p, 1)
	publish(t, ctx, p, "x")
	for range len(topics) + 3 {
		if err := <-errs; !errors.Is(err, ErrInHandler) {
			t.Errorf("in a handler: %v", err)
		}
	}
}

// A subscription that falls behind in the groups of one loop ends in those of all, and holds
// nobody up there.
func TestLoopsEvict(t *testing.T) {
	ctx := testContext(t)
	url := memURL(t)
	pubBus := openBus(t, Config{}, url)
	subBus := openBus(t, Config{Loops: 2, ReceiveWindowBytes: 64 << 10}, url)
	topics := loopTopics(subBus, 6)
	sub := subscribe(t, subBus, topics[0], Topics(topics[1:]...), SlowConsumer(SlowEvict))
	for _, topic := range topics {
		wait(t, ctx, publisher(t, pubBus, topic), 1)
	}
	for _, topic := range topics {
		p := publisher(t, pubBus, topic)
		for range 300 {
			publish(t, ctx, p, strings.Repeat("m", 1000))
		}
	}
	select {
	case <-sub.Done():
	case <-ctx.Done():
		t.Fatal("it is not ended")
	}
	var evicted *EvictedError
	if err := sub.Err(); !errors.As(err, &evicted) {
		t.Errorf("it ended because of %v", err)
	}
	for _, topic := range topics {
		p := publisher(t, pubBus, topic)
		for range 300 {
			publish(t, ctx, p, strings.Repeat("m", 1000))
		}
	}
	if err := sub.Close(); err != nil {
		t.Errorf("closing it: %v", err)
	}
}

// Requests are answered in whatever loop their topics are, and surveys hear all of them.
func TestLoopsRequestSurvey(t *testing.T) {
	ctx := testContext(t)
	url := memURL(t)
	asking, answering := openBus(t, Config{Loops: 3}, url), openBus(t, Config{Loops: 2}, url)
	topics := loopTopics(asking, 5)
	if _, err := answering.Handle("t.>", func(m Message, _ error) {
		if m.IsRequest() {
			if err := m.Respond([]byte(m.Topic)); err != nil {
				t.Error(err)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	survey, err := answering.Survey("t.>")
	if err != nil {
		t.Fatal(err)
	}
	defer survey.Close()
	for _, topic := range topics {
		wait(t, ctx, publisher(t, asking, topic), 1)
		r, err := asking.Request(ctx, topic, []byte("?"))
		if err != nil || string(r.Data) != topic {
			t.Errorf("%s: %q, %v", topic, r.Data, err)
		}
	}
	for {
		list, err := survey.Topics()
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Topics) == len(topics) && list.Publishers == 1 && list.Joined == answering.Groups() {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("heard %+v", list)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// A handler that one loop calls answers what another loop was asked, which may be waiting for it.
func TestLoopsRespondInHandler(t *testing.T) {
	ctx := testContext(t)
	url := memURL(t)
	asking, answering := openBus(t, Config{}, url), openBus(t, Config{Loops: 2}, url)
	topics := loopTopics(answering, answering.Groups())
	asks, tells := topics[0], ""
	for _, topic := range topics {
		if answering.Group(topic)%2 != answering.Group(asks)%2 {
			tells = topic
		}
	}
	asked, errs := make(chan Message, 1), make(chan error, 3)
	if _, err := answering.Handle(asks, func(m Message, _ error) { asked <- m }); err != nil {
		t.Fatal(err)
	}
	if _, err := answering.Handle(tells, func(Message, error) {
		m := <-asked
		errs <- m.Respond(make([]byte, 16<<20+1))
		errs <- m.Respond([]byte("late"))
		errs <- m.Respond([]byte("later"))
	}); err != nil {
		t.Fatal(err)
	}
	p := publisher(t, asking, tells)
	wait(t, ctx, p, 1)
	wait(t, ctx, publisher(t, asking, asks), 1)
	publish(t, ctx, p, "now")
	r, err := asking.Request(ctx, asks, []byte("?"))
	if err != nil || string(r.Data) != "late" {
		t.Errorf("%q, %v", r.Data, err)
	}
	for _, want := range []error{ErrMessageTooLarge, nil, ErrAnswered} {
		if err := <-errs; !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
}

// How many loops a bus has is said by its configuration or by one URL.
func TestLoopsErrors(t *testing.T) {
	url := memURL(t)
	for _, c := range []struct {
		cfg  Config
		urls []string
		want string
	}{
		{Config{}, []string{url + "?loops=0"}, "loops=0 must be a number from 1 to 64"},
		{Config{}, []string{url + "?loops=many"}, "loops=many must be a number"},
		{Config{}, []string{url + "?loops=65"}, "loops=65 must be"},
		{Config{}, []string{url + "?loops="}, "names no number"},
		{Config{Loops: 2}, []string{url + "?loops=2"}, "leave one out"},
		{Config{Loops: 65}, []string{url}, "Config.Loops is 65"},
		{Config{}, []string{url + "?loops=5&groups=4"}, "5 loops are more than the fabric's groups, which are 4"},
		{Config{}, []string{url + "?loops=2", url + "2?loops=3"}, "each loop has all legs"},
		{Config{Loops: 2}, []string{"udp://?uport=7401"}, "uport= is one port"},
	} {
		c.cfg.Logger = quiet
		b, err := c.cfg.Open(t.Context(), c.urls[0], c.urls[1:]...)
		if err == nil {
			b.Close()
			t.Errorf("%v with Loops %d is taken", c.urls, c.cfg.Loops)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.urls, err, c.want)
		}
	}
	for _, url := range []string{url + "?loops=2", url + "?loops=1"} {
		b := openBus(t, Config{}, url)
		b.Close()
	}
}
