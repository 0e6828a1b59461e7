package pubsub

import (
	"context"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/transport/simnet"
)

// promises are what the package promises in doc.go, in its order. Each is kept on every fabric, but for those that are
// exempt for a reason.
var promises = []struct {
	text   string // of doc.go
	keep   func(*promised)
	exempt map[string]string // fabrics, with the reason
}{
	{"arrive at every subscription of that topic in the order they were published, each once", inOrderAndOnce, nil},
	{"all messages that one bus publishes on topics that map to one group arrive in one order", inOneOrder, nil},
	{"Losses on the way are repaired", lossesRepaired, nil},
	{"What cannot be repaired is never silent", gapsAreExact, nil},
	{"A subscription begins live", beginsLive, nil},
	{"the token * stands for any one token of a topic, and >, as the last, for one or more", patternsMatch, nil},
	{"TryPublish says so with ErrBackPressure", pressureIsTold, nil},
	{"Nobody stalls without a word", stallIsTold, nil},
	{"Where nothing can be sent, for the interface is down or no key is valid, publishers wait", publishersWait, map[string]string{
		"mem": linkless, "shm": linkless,
	}},
	{"A bus that detects nobody logs it once", nobodyIsTold, map[string]string{
		"mem": "the other side is in this process, and no interface can be the wrong one",
		"sim": "the other side is in this process, and no interface can be the wrong one",
	}},
	{"with FlowNone for nobody", nobodyIsWaitedFor, nil},
	{"SlowGap loses the oldest of what is not read", oldestIsLost, nil},
	{"a subscriber executes a request once", requestsRunOnce, nil},
	{"What would wait for the bus, such as Subscribe or Close, returns ErrInHandler there", handlersMayNotWait, nil},
	{"Messages have up to 16 MiB", largeMessages, nil},
	{"A bus hears nothing of what it publishes itself", nothingOfItself, nil},
}

// near is the interface of the fabrics that have one.
const near = "near"

const linkless = "memory has no link that could be down"

// promised is a promise on a fabric.
type promised struct {
	*testing.T
	ctx  context.Context
	name string // of the fabric
	url  string
}

func (p *promised) open(c Config) *Bus {
	p.Helper()
	return openBus(p.T, c, p.url)
}

// pair is a publisher on x, and a subscription of it that it has heard of.
func (p *promised) pair(from, to Config) (*Publisher, *Subscription) {
	p.Helper()
	pub := publisher(p.T, p.open(from), "x")
	sub := subscribe(p.T, p.open(to), "x")
	wait(p.T, p.ctx, pub, 1)
	return pub, sub
}

// link takes the publisher's link down or up. Its bus was opened first.
func (p *promised) link(up bool) {
	switch {
	case p.name == "sim":
		simnet.Lookup(strings.TrimPrefix(p.url, "sim://")).Host(0).Port(0, 1).SetUp(up)
	case up:
		testenv.LinkUp(p.T, near)
	default:
		testenv.LinkDown(p.T, near)
	}
}

// TestPromises keeps each promise of the package on each fabric.
func TestPromises(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // it waits most of the time
	if !testenv.Namespace(t) {
		return
	}
	testenv.AddVeth(t, near, "far", 0)
	testenv.AddAddr(t, near, "10.88.0.1/24")
	testenv.LinkUp(t, near)
	testenv.LinkUp(t, "far")
	file, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	doc := strings.Join(strings.Fields(file.Doc.Text()), " ")
	for i, x := range promises {
		t.Run(fmt.Sprint(i+1, " ", strings.Join(strings.Fields(x.text)[:3], " ")), func(t *testing.T) {
			if !strings.Contains(doc, x.text) {
				t.Errorf("doc.go does not promise: %s", x.text)
			}
			for _, fabric := range fabrics {
				if x.exempt[fabric.name] != "" || fabric.name == "shm" && testing.Short() { // see eachFabric
					continue
				}
				t.Run(fabric.name, func(t *testing.T) {
					if x.exempt["mem"] != linkless { // or others would lose their link
						t.Parallel()
					}
					url := strings.NewReplacer("iface=lo", "iface="+near, "roce://lo", "roce://"+near).Replace(fabric.url(t))
					x.keep(&promised{t, testContext(t), fabric.name, url})
				})
			}
		})
	}
}

func inOrderAndOnce(p *promised) {
	pub, sub := p.pair(Config{}, Config{})
	const n = 500
	for i := range n {
		publish(p.T, p.ctx, pub, simMessage(i))
	}
	for i := range n {
		if m := want(p.T, p.ctx, sub, simMessage(i)); m.Number != uint64(i) {
			p.Fatalf("message %d has number %d", i, m.Number)
		}
	}
}

func inOneOrder(p *promised) {
	bus := p.open(Config{})
	topics := sameGroup(bus, 2)
	sub := subscribe(p.T, p.open(Config{}), topics[0], Topics(topics[1]))
	var pubs []*Publisher
	for _, topic := range topics {
		pubs = append(pubs, publisher(p.T, bus, topic))
		wait(p.T, p.ctx, pubs[len(pubs)-1], 1)
	}
	for i := range 200 {
		publish(p.T, p.ctx, pubs[i%2], fmt.Sprint(i))
	}
	for i := range 200 {
		want(p.T, p.ctx, sub, fmt.Sprint(i))
	}
}

func lossesRepaired(p *promised) {
	pub, sub := p.pair(Config{}, Config{Faults: "loss=0.1,seed=3"})
	const n = 1000
	go func() {
		for i := range n {
			if err := pub.Publish(p.ctx, []byte(simMessage(i))); err != nil {
				p.Error(err)
				return
			}
		}
	}()
	for i := range n {
		want(p.T, p.ctx, sub, simMessage(i))
	}
}

func gapsAreExact(p *promised) {
	pub, sub := p.pair(Config{FlowControl: FlowNone, WindowBytes: 64 << 10}, Config{Faults: "loss=0.3,seed=3", RecoveryDeadline: time.Millisecond})
	const n = 2000
	for i := range n {
		publish(p.T, p.ctx, pub, simMessage(i))
	}
	a := account{t: p.T}
	for a.next < n {
		m, err := sub.Next(p.ctx)
		if err := a.take(m, err); err != nil {
			p.Fatal(err)
		}
	}
	if a.gone == 0 || a.gone+a.delivered != n {
		p.Errorf("%d of %d messages came, gaps name %d", a.delivered, n, a.gone)
	}
}

func beginsLive(p *promised) {
	bus := p.open(Config{})
	pub := publisher(p.T, bus, "x")
	publish(p.T, p.ctx, pub, "before")
	if err := pub.Flush(p.ctx); err != nil {
		p.Fatal(err)
	}
	sub := subscribe(p.T, p.open(Config{}), "x")
	wait(p.T, p.ctx, pub, 1)
	publish(p.T, p.ctx, pub, "live")
	want(p.T, p.ctx, sub, "live")
}

func patternsMatch(p *promised) {
	bus, other := p.open(Config{}), p.open(Config{})
	one, more := subscribe(p.T, other, "md.*.AAPL"), subscribe(p.T, other, "md.>")
	for _, topic := range []string{"md.xnas.AAPL", "md.xnas.MSFT", "fx.xnas.AAPL"} {
		pub := publisher(p.T, bus, topic)
		if strings.HasPrefix(topic, "md.") {
			wait(p.T, p.ctx, pub, 1)
		}
		publish(p.T, p.ctx, pub, topic)
	}
	want(p.T, p.ctx, one, "md.xnas.AAPL")
	got := []string{want2(p, more), want2(p, more)}
	if slices.Sort(got); !slices.Equal(got, []string{"md.xnas.AAPL", "md.xnas.MSFT"}) {
		p.Errorf("md.> got %q", got)
	}
}

func want2(p *promised, s *Subscription) string {
	p.Helper()
	m, err := s.Next(p.ctx)
	if err != nil {
		p.Fatal(err)
	}
	return string(m.Data)
}

// fill publishes until a subscription that is not read has the publisher wait.
func (p *promised) fill(pub *Publisher) error {
	p.Helper()
	msg := make([]byte, 500)
	for p.ctx.Err() == nil {
		if err := pub.TryPublish(msg); err != nil {
			return err
		}
	}
	p.Fatal("no end of room")
	return nil
}

var small = Config{WindowBytes: 128 << 10, ReceiveWindowBytes: 128 << 10}

func pressureIsTold(p *promised) {
	pub, sub := p.pair(small, small)
	if err := p.fill(pub); !errors.Is(err, ErrBackPressure) {
		p.Fatal(err)
	}
	go func() {
		for {
			if _, err := sub.Next(p.ctx); err != nil {
				return
			}
		}
	}()
	publish(p.T, p.ctx, pub, "and on")
}

func stallIsTold(p *promised) {
	var there, here heard
	from, to := small, small
	from.OnEvent, to.OnEvent, to.Name = there.event, here.event, "reader"
	pub, _ := p.pair(from, to)
	p.fill(pub)
	if e := there.await(p.T, p.ctx, events.PublisherStalled); e.Name != "reader" || e.Address == "" || e.Behind == 0 {
		p.Errorf("%+v", e)
	}
	for _, kind := range []events.Kind{events.HoldsPublishersUp, events.SubscriptionNotRead} {
		if e := here.await(p.T, p.ctx, kind); !slices.Equal(e.Topics, []string{"x"}) || e.Behind == 0 {
			p.Errorf("%+v", e)
		}
	}
}

func publishersWait(p *promised) {
	var told heard
	from := Config{WindowBytes: 256 << 10, FlowControl: FlowNone, OnEvent: told.event}
	pub, sub := p.pair(from, Config{})
	publish(p.T, p.ctx, pub, "before")
	want(p.T, p.ctx, sub, "before")
	p.link(false)
	lost := told.await(p.T, p.ctx, events.GroupLost)
	const n = 100 // fit the window, so that what the subscriber misses until it has joined again is repaired
	for range n {
		publish(p.T, p.ctx, pub, "during")
	}
	if e := told.await(p.T, p.ctx, events.CannotSend); e.Err == nil || lost.Err == nil {
		p.Errorf("%+v after %+v", e, lost)
	}
	p.link(true)
	told.await(p.T, p.ctx, events.SendsAgain)
	for range n {
		want(p.T, p.ctx, sub, "during")
	}
	publish(p.T, p.ctx, pub, "behind")
	want(p.T, p.ctx, sub, "behind")

	told.await(p.T, p.ctx, events.GroupBack)
	before := len(told.of(events.GroupLost))
	p.link(false)
	for len(told.of(events.GroupLost)) == before && p.ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	msg, taken := make([]byte, 500), 0
	for p.ctx.Err() == nil && pub.TryPublish(msg) == nil {
		taken++
	}
	p.link(true)
	if taken > 2000 { // more than the window
		p.Errorf("%d messages were taken", taken)
	}
}

func nobodyIsTold(p *promised) {
	var told heard
	bus := p.open(Config{OnEvent: told.event})
	subscribe(p.T, bus, "y")
	publish(p.T, p.ctx, publisher(p.T, bus, "x"), "to nobody")
	for _, kind := range []events.Kind{events.NoSubscriberHeard, events.NoPublisherHeard} {
		if e := told.await(p.T, p.ctx, kind); e.Interface == "" || len(e.Topics) != 1 {
			p.Errorf("%+v", e)
		}
	}
}

func nobodyIsWaitedFor(p *promised) {
	from := small
	from.FlowControl = FlowNone
	pub, _ := p.pair(from, small)
	for i := range 5000 {
		publish(p.T, p.ctx, pub, simMessage(i))
	}
}

func oldestIsLost(p *promised) {
	pub := publisher(p.T, p.open(small), "x")
	sub := subscribe(p.T, p.open(small), "x", SlowConsumer(SlowGap))
	wait(p.T, p.ctx, pub, 1)
	const n = 5000
	for i := range n {
		publish(p.T, p.ctx, pub, simMessage(i))
	}
	a := account{t: p.T}
	for a.next < n {
		m, err := sub.Next(p.ctx)
		var gap *GapError
		if errors.As(err, &gap) && gap.Cause != CauseSlowConsumer {
			p.Fatal(err)
		}
		if err := a.take(m, err); err != nil {
			p.Fatal(err)
		}
	}
	if a.gone == 0 {
		p.Error("nothing was lost")
	}
}

func requestsRunOnce(p *promised) {
	there, here := p.open(Config{}), p.open(Config{Faults: "loss=0.1,seed=3"})
	times := echo(p.T, there, "ask")
	for i := range 20 {
		r, err := here.Request(p.ctx, "ask", []byte(fmt.Sprint(i)))
		if err != nil || string(r.Data) != fmt.Sprint("re:", i) {
			p.Fatalf("%q, %v", r.Data, err)
		}
	}
	n := 0
	times.Range(func(_, v any) bool {
		n++
		if got := v.(interface{ Load() int64 }).Load(); got != 1 {
			p.Errorf("a request was executed %d times", got)
		}
		return true
	})
	if n != 20 {
		p.Errorf("%d requests were executed", n)
	}
}

func handlersMayNotWait(p *promised) {
	pub := publisher(p.T, p.open(Config{}), "x")
	bus := p.open(Config{})
	said := make(chan error, 2)
	if _, err := bus.Handle("x", func(Message, error) {
		_, err := bus.Subscribe("y")
		said <- err
		said <- bus.Close()
	}); err != nil {
		p.Fatal(err)
	}
	wait(p.T, p.ctx, pub, 1)
	publish(p.T, p.ctx, pub, "go")
	for range 2 {
		select {
		case err := <-said:
			if !errors.Is(err, ErrInHandler) {
				p.Error(err)
			}
		case <-p.ctx.Done():
			p.Fatal("no message")
		}
	}
}

func largeMessages(p *promised) {
	pub, sub := p.pair(Config{}, Config{})
	text := strings.Repeat("0123456789abcdef", 1<<20)
	go func() {
		if err := pub.Publish(p.ctx, []byte(text)); err != nil {
			p.Error(err)
		}
	}()
	if m, err := sub.Next(p.ctx); err != nil || string(m.Data) != text {
		p.Errorf("%d bytes, %v", len(m.Data), err)
	}
	if err := pub.Publish(p.ctx, append([]byte(text), 0)); err == nil {
		p.Error("one byte more is taken, too")
	}
}

func nothingOfItself(p *promised) {
	bus, other := p.open(Config{}), p.open(Config{})
	own, far := subscribe(p.T, bus, "x"), subscribe(p.T, other, "x")
	pub, back := publisher(p.T, bus, "x"), publisher(p.T, other, "x")
	wait(p.T, p.ctx, pub, 1)
	wait(p.T, p.ctx, back, 1)
	publish(p.T, p.ctx, pub, "there")
	want(p.T, p.ctx, far, "there")
	publish(p.T, p.ctx, back, "and back")
	want(p.T, p.ctx, own, "and back")
}
