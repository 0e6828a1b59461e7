package pubsub

import (
	"context"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/fabricurl"
	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/transport/simnet"
)

// promises are the promises of doc.go, in its order. Each is tested on every fabric, except those listed as exempt
// with a reason. A sentence of doc.go without a row must be in noPromises.
var promises = []struct {
	text   string // of doc.go
	keep   func(*promised)
	exempt map[string]string // fabrics, with the reason
}{
	{"one Publish, one datagram on the wire, every subscriber served by the network", oneDatagram, nil},
	{"arrive at every subscription of that topic in the order they were published, each once", inOrderAndOnce, nil},
	{"all messages that one bus publishes on topics that map to one group arrive in one order", inOneOrder, nil},
	{"Losses on the way are repaired", lossesRepaired, nil},
	{"Losses that cannot be repaired are never silent", gapsAreExact, nil},
	{"A lost packet is requested until the recovery deadline (Config.RecoveryDeadline, 2 s)", deadlineGivesUp, nil},
	{"until the publisher reports that it no longer has it", goneGivesUp, nil},
	{"A subscription begins live: with the first packet of a publisher that arrives after its group was joined. " +
		"Publisher.WaitSubscribers lets a publisher wait for that", beginsLive, nil},
	{"the token * stands for any one token of a topic, and >, as the last, for one or more. \"md.*.AAPL\" and \"md.>\" deliver every matching " +
		"topic, also those created later", patternsMatch, nil},
	{"a publisher never outruns the window of the slowest subscriber that is present: Publish waits", slowestIsWaitedFor, nil},
	{"TryPublish returns ErrBackPressure", backPressureIsReported, nil},
	{"holds up its publishers and the other subscriptions of its bus", neighboursWait, nil},
	{"Publishers wait for a subscriber that died until they have solicited it ten times and Config.Silence has passed", deadIsGivenUp, nil},
	{"Without subscribers publishers do not wait", runsFree, nil},
	{"No stall is silent. A subscriber that is alive but does not read is reported by its Config.Name or host and process, its " +
		"address, for how long it has blocked the publisher and how far behind it is: after a second in the log and by events.PublisherStalled; " +
		"in the *FlowError of a Publish whose context ends; in Publisher.Receivers. Its own bus reports it", stallIsReported, nil},
	{"it is released. The publisher continues, and messages that the subscriber can no longer fetch when it resumes reading are a *GapError of CauseReleased. " +
		"Then publishers wait for it again", stalledIsReleased, nil},
	{"stays more than Config.SlowBehind packets behind is also released", by(slowSubscriberEvent), nil},
	{"If nothing can be sent, because the interface is down or no key is valid, publishers wait", publishersWait, map[string]string{
		"mem": "memory has no link that could be down", "shm": "memory has no link that could be down",
	}},
	{"no key is valid, publishers wait when there is no more room, with every kind of flow control", publishersWaitWithoutKey, nil},
	{"A bus that detects no peer reports it once", noPeerIsReported, map[string]string{
		"mem": "the other side is in this process, and no interface can be the wrong one",
		"sim": "the other side is in this process, and no interface can be the wrong one",
	}},
	{"With FlowQuorum(n) a publisher waits for its n fastest subscribers", oneOfFour(FlowQuorum(3)), nil},
	{"with FlowMax for the fastest", oneOfFour(FlowMax), nil},
	{"with FlowNone for none", noSubscriberIsWaitedFor, nil},
	{"FlowTagged(\"book\") waits only for subscribers whose bus has that Config.Tag", oneOfFour(FlowTagged("book")), nil},
	{"FlowQuorum(2).Tagged(\"book\") for the two fastest of them", oneOfFour(FlowQuorum(3).Tagged("book")), nil},
	{"Subscribers that publishers do not wait for have gaps when they fall out of the window", noSubscriberIsWaitedFor, nil},
	{"Publisher.Delivered is the number of messages that those it waits for have received", deliveredIsExact, nil},
	{"The option SlowConsumer sets what happens to a subscription that reads too slowly. SlowBlock blocks publishers. " +
		"The other policies do not affect publishers and other subscriptions of the bus", slowPolicies, nil},
	{"SlowGap drops the oldest unread messages", oldestIsLost, nil},
	{"Each publisher and group is judged separately. Conflate keeps the newest message of each key", eachCountsByItself, nil},
	{"Bus.Request publishes a message that subscribers answer with Message.Respond, and waits for the first reply; " +
		"RequestMany for several, or one of each subscriber", repliesCome, nil},
	{"Replies are sent by unicast; a lost reply is sent again from memory, so a subscriber executes a request once", requestsRunOnce, nil},
	{"A handler that takes more than a second is reported while it runs", slowHandlerIsReported, nil},
	{"Calls that would wait for the bus, such as Subscribe or Close, return ErrInHandler there; other goroutines may make them", by(testCallsInHandler), nil},
	{"Conflate has its own goroutine instead", ownGoroutineHandlerMayBlock, nil},
	{"Messages have up to 16 MiB", by(largeMessages), nil},
	{"A bus does not receive its own messages", ownMessagesAreNotReceived, nil},
	{"Publishing takes up to Config.WindowBytes (8 MiB) a group, and Config.PublishMemoryBytes (24 MiB) for all groups", publishMemory, nil},
	{"The receive windows of a group take up to Config.ReceiveMemoryBytes (64 MiB), however many publishers there are", receiveMemory, nil},
	{"up to Config.MaxPublishers", by(refusedPublisherIsReported), nil},
	{"up to Config.MaxMessage (16 MiB) for each publisher", by(maxMessage), nil},
}

// noPromises are the beginnings of sentences in doc.go that promise nothing.
var noPromises = []string{
	"Messages of different publishers, or of different groups, have no order",
	"Without it a subscriber that joins mid-stream may start with a gap",
	"Subscribe accepts patterns, too", // see the row on patterns
	"See Bus.Subscribe",
	"A request is sent like any other message",
	"The goroutine that runs handlers runs the whole bus",
	"Memory is bounded, and grows as it is used", // the sentences that follow name the bounds
	"Set MaxMessage to the largest message",
	"A transport has additional buffers",
}

// near is the interface of fabrics that have one; down is the prefix of interfaces that the test takes down.
const near, down = "near", "down"

// promised is the test of one promise on one fabric.
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

// pair returns a publisher on topic x and a subscription that it knows of.
func (p *promised) pair(from, to Config) (*Publisher, *Subscription) {
	p.Helper()
	pub := publisher(p.T, p.open(from), "x")
	sub := subscribe(p.T, p.open(to), "x")
	wait(p.T, p.ctx, pub, 1)
	return pub, sub
}

// on changes the interface of a fabric from loopback to iface.
func (p *promised) on(iface string) {
	p.url = strings.NewReplacer("iface=lo", "iface="+iface, "roce://lo", "roce://"+iface).Replace(p.url)
}

// link takes the publisher's link down or up. The publisher's bus must have been opened first.
func (p *promised) link(up bool) {
	switch {
	case p.name == "sim":
		simnet.Lookup(strings.TrimPrefix(p.url, "sim://")).Host(0).Port(0, 1).SetUp(up)
	case up:
		testenv.LinkUp(p.T, down+p.name)
	default:
		testenv.LinkDown(p.T, down+p.name)
	}
}

// by converts a test with a URL to one of promises.
func by(test func(*testing.T, string)) func(*promised) { return func(p *promised) { test(p.T, p.url) } }

// TestPromises tests each promise of the package on each fabric.
func TestPromises(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	if !testenv.Namespace(t) {
		return
	}
	for i, name := range []string{near, down + "udp", down + "roce"} {
		testenv.AddVeth(t, name, fmt.Sprint("far", i), 0)
		testenv.AddAddr(t, name, fmt.Sprintf("10.88.%d.1/24", i))
		testenv.LinkUp(t, name)
		testenv.LinkUp(t, fmt.Sprint("far", i))
	}
	doc := promisedText(t)
	for i, x := range promises {
		t.Run(fmt.Sprint(i+1, " ", strings.Join(strings.Fields(x.text)[:3], " ")), func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(doc, x.text) {
				t.Errorf("doc.go does not promise: %s", x.text)
			}
			for _, fabric := range fabrics {
				if x.exempt[fabric.name] != "" || testing.Short() && (fabric.name == "shm" || fabric.name == "roce") { // see eachFabric
					continue
				}
				t.Run(fabric.name, func(t *testing.T) {
					t.Parallel()
					p := &promised{t, testContext(t), fabric.name, fabric.url(t)}
					p.on(near)
					x.keep(p)
				})
			}
		})
	}
}

// promisedText is the text of doc.go, without its headings and its example.
func promisedText(t *testing.T) string {
	file, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var text []string
	for block := range strings.SplitSeq(file.Doc.Text(), "\n\n") {
		if !strings.HasPrefix(block, "#") && !strings.HasPrefix(block, "\t") {
			text = append(text, strings.Fields(block)...)
		}
	}
	return strings.Join(text, " ")
}

// Each sentence of doc.go is in a row of promises or in noPromises.
func TestPromisesAreInTheTable(t *testing.T) {
	doc := promisedText(t)
	for at := 0; at < len(doc); {
		end := len(doc)
		if n := strings.Index(doc[at:], ". "); n >= 0 {
			end = at + n + 1
		}
		kept := slices.ContainsFunc(noPromises, func(begin string) bool { return strings.HasPrefix(doc[at:], begin) })
		for _, x := range promises {
			from := strings.Index(doc, x.text)
			kept = kept || from >= 0 && from < end && from+len(x.text) > at
		}
		if !kept {
			t.Errorf("no row for %q", doc[at:end])
		}
		at = end + 1
	}
}

func inOrderAndOnce(p *promised) {
	pub, sub := p.pair(Config{}, Config{})
	const n = 500
	p.publish(pub, n)
	for i := range n {
		if m := want(p.T, p.ctx, sub, simMessage(i)); m.Number != uint64(i) {
			p.Fatalf("message %d has number %d, want equal ones", i, m.Number)
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

// publish publishes n messages, numbered from 0.
func (p *promised) publish(pub *Publisher, n int) {
	for i := range n {
		if err := pub.Publish(p.ctx, []byte(simMessage(i))); err != nil {
			p.Errorf("publish message %d: %v", i, err)
			return
		}
	}
}

// receive receives the n messages of publish.
func (p *promised) receive(sub *Subscription, n int) {
	for i := range n {
		want(p.T, p.ctx, sub, simMessage(i))
	}
}

func lossesRepaired(p *promised) {
	pub, sub := p.pair(Config{}, Config{Faults: "loss=0.1,seed=3"})
	const n = 1000
	go p.publish(pub, n)
	p.receive(sub, n)
}

func gapsAreExact(p *promised) {
	p.gaps(Config{WindowBytes: 64 << 10}, Config{Faults: "loss=0.3,seed=3", RecoveryDeadline: time.Millisecond})
}

func deadlineGivesUp(p *promised) {
	p.gaps(Config{}, Config{Faults: "loss=0.6,seed=3", RecoveryDeadline: time.Millisecond}, events.CauseDeadline, events.CauseOverrun, events.CauseGone) // the window grows while it is in use
}

func goneGivesUp(p *promised) {
	p.gaps(Config{WindowBytes: 64 << 10}, Config{Faults: "loss=0.3,seed=3"}, events.CauseGone, events.CauseOverrun)
}

// gaps publishes without flow control to a subscriber that loses messages: some for the first of causes, and none for
// a cause that is not listed, if any are listed.
func (p *promised) gaps(from, to Config, causes ...events.Cause) {
	from.FlowControl = FlowNone
	if causes != nil { // a slow reader may have other causes
		causes = append(causes, events.CauseSlowConsumer)
	}
	pub, sub := p.pair(from, to)
	const n = 2000
	p.publish(pub, n)
	p.account(sub, n, causes...)
}

// account reads n messages of which some are lost: some for the first of causes, and none for a cause that is not
// listed, if any are listed.
func (p *promised) account(sub *Subscription, n uint64, causes ...events.Cause) {
	p.Helper()
	a, seen := account{t: p.T}, map[events.Cause]int{}
	for a.next < n {
		m, err := sub.Next(p.ctx)
		var gap *GapError
		if errors.As(err, &gap) {
			if seen[gap.Cause]++; causes != nil && !slices.Contains(causes, gap.Cause) {
				p.Fatal(err)
			}
		}
		if err := a.take(m, err); err != nil {
			p.Fatal(err)
		}
	}
	if a.gone == 0 || a.gone+a.delivered != n {
		p.Errorf("%d of %d messages arrived, gaps name %d, want all together", a.delivered, n, a.gone)
	}
	if causes != nil && seen[causes[0]] == 0 {
		p.Errorf("no gap because of %v, but %v", causes[0], seen)
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
		p.Errorf("md.> got %q, want md.xnas.AAPL and md.xnas.MSFT", got)
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

// fill publishes until an unread subscription makes the publisher wait.
func (p *promised) fill(pub *Publisher) error {
	p.Helper()
	msg := make([]byte, 500)
	for p.ctx.Err() == nil {
		if err := pub.TryPublish(msg); err != nil {
			return err
		}
	}
	p.Fatal("the publisher never waits")
	return nil
}

var small = Config{WindowBytes: 128 << 10, ReceiveWindowBytes: 128 << 10}

func backPressureIsReported(p *promised) {
	pub, sub := p.pair(small, small)
	if err := p.fill(pub); !errors.Is(err, events.ErrBackPressure) {
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

func stallIsReported(p *promised) {
	var there, here eventLog
	from, to := small, small
	from.OnEvent, to.OnEvent, to.Name = there.event, here.event, "reader"
	pub, _ := p.pair(from, to)
	p.fill(pub)
	var held *events.FlowError
	for p.ctx.Err() == nil && !errors.As(p.publishFor(pub, 10*time.Millisecond), &held) {
	}
	if held == nil || held.Name != "reader" || held.Address == "" || held.For == 0 || held.Behind == 0 {
		p.Errorf("BackPressureError %+v, want reader's name, address, duration and packets behind", held)
	}
	if r := pub.Receivers(); len(r) != 1 || r[0].Name != "reader" || r[0].Address == "" || r[0].HeldFor == 0 || r[0].Behind == 0 {
		p.Errorf("subscribers %+v, want reader alone with address, duration and packets behind", r)
	}
	if e := there.await(p.T, p.ctx, events.PublisherStalled); e.Name != "reader" || e.Address == "" || e.For < time.Second || e.Behind == 0 {
		p.Errorf("event %+v, want reader's name, address, packets behind, and at least 1 s", e)
	}
	for _, kind := range []events.Kind{events.HoldsPublishersUp, events.SubscriptionNotRead} {
		if e := here.await(p.T, p.ctx, kind); !slices.Equal(e.Topics, []string{"x"}) || e.Behind == 0 {
			p.Errorf("event %+v, want topic x and packets behind", e)
		}
	}
}

// publishFor publishes a message, and waits at most d for room.
func (p *promised) publishFor(pub *Publisher, d time.Duration) error {
	ctx, cancel := context.WithTimeout(p.ctx, d)
	defer cancel()
	return pub.Publish(ctx, make([]byte, 500))
}

func stalledIsReleased(p *promised) {
	var reported eventLog
	from, to := small, small
	from.StallLimit, from.OnEvent, to.Name = 200*time.Millisecond, reported.event, "reader"
	pub, sub := p.pair(from, to)
	const n = 2000
	p.publish(pub, n)
	reported.awaitOf(p.T, p.ctx, events.SubscriberReleased, "reader")
	p.account(sub, n, events.CauseReleased)
	eventually(p.T, p.ctx, "the publisher waits for it again", func() bool { return !pub.Receivers()[0].Released })
}

func publishersWait(p *promised) {
	p.url = strings.Replace(p.url, near, down+p.name, 1)
	var reported eventLog
	from := Config{WindowBytes: 256 << 10, FlowControl: FlowNone, OnEvent: reported.event}
	pub, sub := p.pair(from, Config{})
	publish(p.T, p.ctx, pub, "before")
	want(p.T, p.ctx, sub, "before")
	p.link(false)
	lost := reported.await(p.T, p.ctx, events.GroupLost)
	const n = 100 // they fit into the window: messages lost before the subscriber joins again are repaired
	for range n {
		publish(p.T, p.ctx, pub, "during")
	}
	if e := reported.await(p.T, p.ctx, events.CannotSend); e.Err == nil || lost.Err == nil {
		p.Errorf("event %+v after %+v, want an error in both", e, lost)
	}
	p.link(true)
	reported.await(p.T, p.ctx, events.SendsAgain)
	for range n {
		want(p.T, p.ctx, sub, "during")
	}
	publish(p.T, p.ctx, pub, "behind")
	want(p.T, p.ctx, sub, "behind")

	reported.await(p.T, p.ctx, events.GroupBack)
	before := len(reported.of(events.GroupLost))
	p.link(false)
	for len(reported.of(events.GroupLost)) == before && p.ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	msg, taken := make([]byte, 500), 0
	for p.ctx.Err() == nil && pub.TryPublish(msg) == nil {
		taken++
	}
	p.link(true)
	if taken > 2000 { // more than the window
		p.Errorf("%d messages were accepted, want at most 2000", taken)
	}
}

func noPeerIsReported(p *promised) {
	var reported eventLog
	bus := p.open(Config{OnEvent: reported.event})
	subscribe(p.T, bus, "y")
	publish(p.T, p.ctx, publisher(p.T, bus, "x"), "no subscriber")
	for _, kind := range []events.Kind{events.NoSubscriberHeard, events.NoPublisherHeard} {
		if e := reported.await(p.T, p.ctx, kind); e.Interface == "" || len(e.Topics) != 1 {
			p.Errorf("event %+v, want an interface and one topic", e)
		}
	}
}

// docs/protocol §8.1.
func noSubscriberIsWaitedFor(p *promised) {
	from := small
	from.FlowControl = FlowNone
	pub, sub := p.pair(from, small)
	const n = 5000
	p.publish(pub, n)
	p.account(sub, n)
}

func oldestIsLost(p *promised) {
	pub := publisher(p.T, p.open(small), "x")
	sub := subscribe(p.T, p.open(small), "x", SlowConsumer(SlowGap))
	wait(p.T, p.ctx, pub, 1)
	const n = 5000
	p.publish(pub, n)
	p.account(sub, n, events.CauseSlowConsumer)
}

func requestsRunOnce(p *promised) {
	there, here := p.open(Config{}), p.open(Config{Faults: "loss=0.1,seed=3"})
	times := echo(p.T, there, "ask")
	for i := range 20 {
		r, err := here.Request(p.ctx, "ask", []byte(fmt.Sprint(i)))
		if err != nil || string(r.Data) != fmt.Sprint("re:", i) {
			p.Fatalf("reply %q, error %v, want \"re:%d\"", r.Data, err, i)
		}
	}
	n := 0
	times.Range(func(_, v any) bool {
		n++
		if got := v.(interface{ Load() int64 }).Load(); got != 1 {
			p.Errorf("a request was executed %d times, want once", got)
		}
		return true
	})
	if n != 20 {
		p.Errorf("%d requests were executed, want 20", n)
	}
}

func ownMessagesAreNotReceived(p *promised) {
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

func oneDatagram(p *promised) {
	bus := p.open(Config{})
	pub := publisher(p.T, bus, "x")
	var subs []*Subscription
	for range 8 {
		subs = append(subs, subscribe(p.T, p.open(Config{}), "x"))
	}
	wait(p.T, p.ctx, pub, len(subs))
	const n = 200
	before := bus.Stats().Transport.PacketsSent
	for i := range n {
		publish(p.T, p.ctx, pub, simMessage(2))
		if err := pub.Flush(p.ctx); err != nil {
			p.Fatalf("flush %d: %v", i, err)
		}
	}
	for _, sub := range subs {
		for range n {
			want(p.T, p.ctx, sub, simMessage(2))
		}
	}
	if sent := bus.Stats().Transport.PacketsSent - before; sent > 2*n { // with heartbeats, and repairs on a busy host
		p.Errorf("%d packets were sent for %d messages to %d subscribers, want at most %d", sent, n, len(subs), 2*n)
	}
}

func slowestIsWaitedFor(p *promised) {
	pub := publisher(p.T, p.open(small), "x")
	fast, slow := subscribe(p.T, p.open(Config{}), "x"), subscribe(p.T, p.open(small), "x")
	wait(p.T, p.ctx, pub, 2)
	const n = 1000
	done := make(chan error, 1)
	go func() {
		for i := range n {
			if err := pub.Publish(p.ctx, []byte(simMessage(i))); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	eventually(p.T, p.ctx, "the slowest blocks the publisher", func() bool {
		return slices.ContainsFunc(pub.Receivers(), func(r stats.Subscriber) bool { return r.HeldFor > 0 })
	})
	select {
	case err := <-done:
		p.Fatal("all is published, of which one subscriber has read nothing", err)
	default:
	}
	p.receive(slow, n)
	p.receive(fast, n)
	if err := <-done; err != nil {
		p.Error(err)
	}
}

func neighboursWait(p *promised) {
	pub, slow := p.pair(small, small)
	neighbour := subscribe(p.T, slow.bus, "x")
	const n = 1000
	go p.publish(pub, n)
	var got atomic.Int64
	all := make(chan struct{})
	go func() {
		defer close(all)
		for i := range n {
			want(p.T, p.ctx, neighbour, simMessage(i))
			got.Add(1)
		}
	}()
	eventually(p.T, p.ctx, "the slow subscription blocks the publisher", func() bool { return pub.Receivers()[0].HeldFor > 0 })
	if got.Load() == n {
		p.Error("its neighbour has everything")
	}
	slow.Close()
	<-all
}

func deadIsGivenUp(p *promised) {
	var reported eventLog
	from := small
	from.Silence, from.OnEvent = 200*time.Millisecond, reported.event
	pub := publisher(p.T, p.open(from), "x")
	fabric, err := fabricurl.Parse(p.url)
	if err != nil {
		p.Fatal(err)
	}
	dying, err := fabric.Open(quiet)
	if err != nil {
		p.Fatal(err)
	}
	to := small
	to.Logger = quiet
	bus, err := to.OpenTransport(dying)
	if err != nil {
		p.Fatal(err)
	}
	subscribe(p.T, bus, "x")
	wait(p.T, p.ctx, pub, 1)
	dying.Close()
	p.fill(pub)
	publish(p.T, p.ctx, pub, "and on")
	if e := reported.await(p.T, p.ctx, events.SubscriberSilent); e.For < from.Silence {
		p.Errorf("event %+v, want a silence of at least %v", e, from.Silence)
	}
}

func runsFree(p *promised) {
	pub := publisher(p.T, p.open(small), "x")
	for i := range 5000 {
		publish(p.T, p.ctx, pub, simMessage(i))
	}
}

func publishersWaitWithoutKey(p *promised) {
	var reported eventLog
	var keys ring
	key := newKey(p.T)
	keys.use(p.T, key)
	pub, sub := p.pair(Config{WindowBytes: 256 << 10, FlowControl: FlowNone, Keys: &keys, OnEvent: reported.event}, Config{Keys: &keys})
	past := key
	past.NotAfter = time.Now().Add(-time.Minute)
	keys.use(p.T, past)
	taken := 0
	for ; p.ctx.Err() == nil && taken < 5000; taken++ {
		if err := p.publishFor(pub, 100*time.Millisecond); err != nil {
			break
		}
	}
	if taken == 5000 {
		p.Error("more than the window was taken")
	}
	reported.await(p.T, p.ctx, events.CannotSend)
	keys.use(p.T, key)
	reported.await(p.T, p.ctx, events.SendsAgain)
	for range taken {
		want(p.T, p.ctx, sub, string(make([]byte, 500)))
	}
}

// oneOfFour has one of four subscribers stop, or of two with FlowMax.
func oneOfFour(flow FlowControl) func(*promised) {
	return func(p *promised) {
		reading := 3
		if flow == FlowMax {
			reading = 1
		}
		testOneStops(p.T, p.url, flow, reading)
	}
}

func deliveredIsExact(p *promised) {
	pub, sub := p.pair(small, small)
	taken := uint64(0)
	for pub.TryPublish(make([]byte, 500)) == nil && p.ctx.Err() == nil {
		taken++
	}
	for range taken {
		want(p.T, p.ctx, sub, string(make([]byte, 500)))
	}
	if err := pub.Drain(p.ctx); err != nil {
		p.Fatal(err)
	}
	if n := pub.Delivered(); n != taken {
		p.Errorf("%d of %d messages are delivered, want all", n, taken)
	}
}

func slowPolicies(p *promised) {
	var reported eventLog
	from := small
	from.OnEvent, from.StallLimit = reported.event, NoStallLimit
	bus := p.open(small)
	gap := subscribe(p.T, bus, "x", SlowConsumer(SlowGap))
	latest := subscribe(p.T, bus, "x", SlowConsumer(SlowLatest), MaxBehind(10))
	evict := subscribe(p.T, bus, "x", SlowConsumer(SlowEvict), MaxBehind(10))
	newest := subscribe(p.T, bus, "x", Conflate(nil))
	read := subscribe(p.T, bus, "x")
	pub := publisher(p.T, p.open(from), "x")
	wait(p.T, p.ctx, pub, 1)
	const n = 2000
	go p.publish(pub, n)
	p.receive(read, n)
	p.account(gap, n, events.CauseSlowConsumer)
	p.account(latest, n, events.CauseSlowConsumer)
	var evicted *events.EvictedError
	if _, err := evict.Next(p.ctx); !errors.As(err, &evicted) {
		p.Error(err)
	}
	m, err := newest.Next(p.ctx)
	for m.Number < n-1 && (err == nil || errors.Is(err, ErrGap)) { // conflated messages may lag behind
		m, err = newest.Next(p.ctx)
	}
	if err != nil || string(m.Data) != simMessage(n-1) || newest.Stats().Replaced == 0 {
		p.Errorf("last message %q, error %v, statistics %+v, want the last published, with others replaced", m.Data, err, newest.Stats())
	}
}

func eachCountsByItself(p *promised) {
	much, sub := p.pair(Config{}, small)
	gap := subscribe(p.T, sub.bus, "x", SlowConsumer(SlowGap))
	sub.Close()
	littleBus := p.open(Config{})
	little := publisher(p.T, littleBus, "x")
	wait(p.T, p.ctx, little, 1)
	for i := range 3 {
		publish(p.T, p.ctx, little, fmt.Sprint("little ", i))
	}
	const n = 3000
	for i := range n {
		publish(p.T, p.ctx, much, simMessage(i))
	}
	var x account
	for got := 0; x.next < n || got < 3; {
		m, err := gap.Next(p.ctx)
		if err == nil && m.Publisher() == littleBus.ID() {
			if string(m.Data) != fmt.Sprint("little ", got) {
				p.Fatalf("message %q, want \"little %v\"", m.Data, got)
			}
			got++
			continue
		}
		if err := x.take(m, err); err != nil {
			p.Fatal(err)
		}
	}
	if x.gone == 0 {
		p.Error("nothing was lost")
	}
}

func repliesCome(p *promised) {
	here := p.open(Config{})
	for range 3 {
		echo(p.T, p.open(Config{}), "ask")
	}
	wait(p.T, p.ctx, publisher(p.T, here, "ask"), 3)
	if r, err := here.Request(p.ctx, "ask", []byte("x")); err != nil || string(r.Data) != "re:x" {
		p.Errorf("reply %q, error %v, want re:x", r.Data, err)
	}
	for _, n := range []int{2, 0} {
		got := 0
		for r, err := range here.RequestMany(p.ctx, "ask", []byte("y"), n) {
			if err != nil || string(r.Data) != "re:y" {
				p.Errorf("reply %q, error %v, want re:y", r.Data, err)
			}
			got++
		}
		if n == 0 && got != 3 || n == 2 && got != 2 {
			p.Errorf("%d replies where %d are asked for of 3", got, n)
		}
	}
}

func slowHandlerIsReported(p *promised) {
	var reported eventLog
	bus := p.open(Config{OnEvent: reported.event})
	pub := publisher(p.T, p.open(Config{}), "x")
	returns := make(chan struct{})
	if _, err := bus.Handle("x", func(Message, error) { <-returns }); err != nil {
		p.Fatal(err)
	}
	wait(p.T, p.ctx, pub, 1)
	publish(p.T, p.ctx, pub, "x")
	e := reported.await(p.T, p.ctx, events.HandlerSlow)
	close(returns)
	if e.For < time.Second || !slices.Equal(e.Topics, []string{"x"}) {
		p.Errorf("event %+v, want topic x for at least 1 s", e)
	}
}

func ownGoroutineHandlerMayBlock(p *promised) {
	pub := publisher(p.T, p.open(Config{}), "x")
	bus := p.open(Config{})
	options := []SubscribeOption{SlowConsumer(SlowGap), SlowConsumer(SlowLatest), SlowConsumer(SlowEvict), Conflate(nil)}
	said := make(chan error, len(options))
	for i, o := range options {
		if _, err := bus.Handle("x", func(m Message, err error) {
			if err == nil {
				_, err = bus.Subscribe(fmt.Sprint("y", i))
			}
			said <- err
		}, o); err != nil {
			p.Fatal(err)
		}
	}
	wait(p.T, p.ctx, pub, 1)
	publish(p.T, p.ctx, pub, "go")
	for range options {
		select {
		case err := <-said:
			if err != nil {
				p.Error(err)
			}
		case <-p.ctx.Done():
			p.Fatal("no message")
		}
	}
}

func publishMemory(p *promised) {
	const all, each, groups = 8 << 20, 4 << 20, 4
	bus := p.open(Config{PublishMemoryBytes: all, WindowBytes: each})
	var pubs []*Publisher
	seen := map[int]bool{}
	for i := 0; len(pubs) < groups; i++ {
		topic := fmt.Sprint("t", i)
		if g := bus.Group(topic); !seen[g] {
			seen[g] = true
			pubs = append(pubs, publisher(p.T, bus, topic))
		}
	}
	least := bus.Stats().Publications[0].MemoryBytes
	used := func() (sum int) {
		for _, st := range bus.Stats().Publications {
			if sum += st.MemoryBytes; st.MemoryBytes > least+each {
				p.Errorf("%d bytes for a group, which has %d at least", st.MemoryBytes, least)
			}
		}
		return sum
	}
	msg := string(make([]byte, 32<<10))
	eventually(p.T, p.ctx, "windows grow to nine tenths of the limit", func() bool {
		for _, pub := range pubs {
			for range each / len(msg) {
				publish(p.T, p.ctx, pub, msg)
			}
		}
		sum := used()
		// The groups are read one after the other, and a block that goes from one to another meanwhile counts twice.
		for looks := 0; sum > all+groups*least; looks++ {
			if time.Sleep(time.Millisecond); looks == 1000 {
				p.Fatalf("%d bytes for all groups, which have %d each at least", sum, least)
			}
			sum = used()
		}
		return sum >= all*9/10
	})
}

func receiveMemory(p *promised) {
	const memory = 8 << 20
	bus := p.open(Config{ReceiveMemoryBytes: memory})
	subscribe(p.T, bus, "x")
	for range 4 {
		pub := publisher(p.T, p.open(small), "x")
		wait(p.T, p.ctx, pub, 1)
		p.fill(pub)
	}
	eventually(p.T, p.ctx, "windows fill", func() bool { return bus.Stats().Groups[0].Windows > 0 })
	if g := bus.Stats().Groups[0]; g.Windows > memory {
		p.Errorf("windows of %d streams take %d bytes, want at most %d", g.Streams, g.Windows, memory)
	}
}
