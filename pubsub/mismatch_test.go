package pubsub

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// mismatches collects the mismatch events of a bus.
type mismatches struct {
	mu    sync.Mutex
	all   []*events.ConfigMismatchError // under mu
	rel   []bool                        // under mu
	apart bool                          // under mu: a ConfigMismatch was reported, not only ConfigDiffers
	news  chan struct{}
	log   strings.Builder // under mu
}

func newMismatches() *mismatches { return &mismatches{news: make(chan struct{}, 64)} }

func (m *mismatches) event(e events.Event) {
	if e.Kind != events.ConfigMismatch && e.Kind != events.ConfigDiffers {
		return
	}
	m.mu.Lock()
	m.all, m.rel = append(m.all, e.Err.(*events.ConfigMismatchError)), append(m.rel, e.Relevant)
	m.apart = m.apart || e.Kind == events.ConfigMismatch
	m.mu.Unlock()
	m.news <- struct{}{}
}

func (m *mismatches) Write(b []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.log.Write(b)
}

func (m *mismatches) config() Config {
	return Config{OnEvent: m.event, Logger: slog.New(slog.NewTextHandler(m, &slog.HandlerOptions{Level: slog.LevelInfo}))}
}

// first waits for the first event.
func (m *mismatches) first(t *testing.T, ctx context.Context) *events.ConfigMismatchError {
	t.Helper()
	select {
	case <-m.news:
	case <-ctx.Done():
		t.Fatal("no event")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all[0]
}

func (m *mismatches) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.all)
}

func (m *mismatches) logged() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.log.String()
}

// farTopic returns a topic that maps to different groups on buses a and b, and to group 0 on neither.
func farTopic(a, b *Bus) string {
	for i := 0; ; i++ {
		topic := fmt.Sprintf("far.%d", i)
		if g, h := a.Group(topic), b.Group(topic); g != h && g != 0 && h != 0 {
			return topic
		}
	}
}

// A subscriber with another number of groups receives nothing of the publisher: both report why, and WaitSubscribers
// returns an error instead of waiting forever. docs/protocol §14.4, §14.6.
func TestGroupsDiffer(t *testing.T) {
	t.Parallel() // the test mostly waits
	ctx := testContext(t)
	url := udpURL(t)
	there, here := newMismatches(), newMismatches()
	pubBus, subBus := openBus(t, there.config(), url+"&groups=64"), openBus(t, here.config(), url+"&groups=16")
	topic := farTopic(pubBus, subBus)
	sub := subscribe(t, subBus, topic, PublisherEvents())
	pub := publisher(t, pubBus, topic)
	err := pub.WaitSubscribers(ctx, 1)
	var apart *events.ConfigMismatchError
	if !errors.As(err, &apart) || apart.Publisher != subBus.ID() || apart.Harmless() || apart.Name == "" || apart.Address == "" {
		t.Fatalf("waiting for subscribers: error %v, want a mismatch with %v", err, subBus.ID())
	}
	if d := apart.Differences[0]; d.Field != events.FieldGroups || d.Ours != "64" || d.Theirs != "16" || d.Advice == "" {
		t.Errorf("differences %+v, want groups 64 here and 16 there, with advice", apart.Differences)
	}
	for _, c := range []struct {
		m            *mismatches
		of           *Bus
		ours, theirs string
	}{{here, pubBus, "16", "64"}, {there, subBus, "64", "16"}} {
		e := c.m.first(t, ctx)
		if e.Publisher != c.of.ID() || e.Differences[0].Ours != c.ours || e.Differences[0].Theirs != c.theirs || e.Address == "" || !c.m.rel[0] {
			t.Errorf("mismatch %+v, relevant %v, want %s here and %s there", e, c.m.rel[0], c.ours, c.theirs)
		}
		if s := c.m.logged(); !strings.Contains(s, "level=WARN") || !strings.Contains(s, fmt.Sprintf("groups=%q", c.theirs+" there, "+c.ours+" here")) || !strings.Contains(s, "do=") {
			t.Errorf("log %s, want a warning with groups %s there, %s here, and advice", s, c.theirs, c.ours)
		}
	}
	// The subscription's stream has the event, too.
	_, err = sub.Next(ctx)
	var event *PublisherEvent
	if !errors.As(err, &event) || event.Kind != events.ConfigMismatch || !strings.Contains(event.Error(), "groups 64 there, 16 here") {
		t.Errorf("event in the stream: %v, want groups 16 here and 64 there", err)
	}
	// A subscriber with the same configuration ends the wait.
	good := openBus(t, Config{}, url+"&groups=64")
	subscribe(t, good, topic)
	wait(t, ctx, pub, 1)
	if n, m := here.count(), there.count(); n != 1 || m != 1 {
		t.Errorf("mismatches reported: %d and %d, want 1 each", n, m)
	}
}

// Equal configurations, subscribers on other addresses, and restarts are not reported. docs/protocol §14.7.
func TestNoFalseAlarm(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	ctx := testContext(t)
	url := udpURL(t)
	m := newMismatches()
	pubBus, subBus := openBus(t, m.config(), url), openBus(t, m.config(), url)
	elsewhere := openBus(t, m.config(), strings.Replace(url, "239.20.0.0/16", "239.77.0.0/16", 1)+"&groups=64")
	subscribe(t, elsewhere, "x")
	sub := subscribe(t, subBus, "x")
	subscribe(t, subBus, "not.published") // without a publisher the bus searches
	for range 2 {
		pub := publisher(t, pubBus, "x")
		wait(t, ctx, pub, 1)
		publish(t, ctx, pub, "hello")
		want(t, ctx, sub, "hello")
		time.Sleep(1500 * time.Millisecond) // long enough for a search and some hellos
		pubBus.Close()
		pubBus = openBus(t, m.config(), url)
	}
	if n := m.count(); n > 0 {
		t.Errorf("%d mismatches reported, want none: %v", n, m.all)
	}
}

// A different packet size is reported once, as ConfigDiffers, and packets are received.
func TestPacketSizesDiffer(t *testing.T) {
	ctx := testContext(t)
	url := udpURL(t)
	m := newMismatches()
	pubBus, subBus := openBus(t, Config{}, url+"&size=9000"), openBus(t, m.config(), url+"&size=1472")
	sub := subscribe(t, subBus, "x")
	pub := publisher(t, pubBus, "x")
	wait(t, ctx, pub, 1)
	publish(t, ctx, pub, strings.Repeat("x", 8000))
	want(t, ctx, sub, strings.Repeat("x", 8000))
	e := m.first(t, ctx)
	if d := e.Differences[0]; len(e.Differences) != 1 || d.Field != events.FieldPacketSize || d.Ours != "1472" || d.Theirs != "9000" || !e.Harmless() {
		t.Errorf("mismatch %+v, want one harmless difference: packet size 1472 here, 9000 there", e)
	}
	if s := m.logged(); strings.Contains(s, "level=WARN") || !strings.Contains(s, "9000 there, 1472 here") {
		t.Errorf("log %s, want no warning, but \"9000 there, 1472 here\"", s)
	}
	counts := make(map[events.Kind]uint64) // for alerts
	for _, c := range subBus.Stats().Events {
		counts[c.Kind] = c.Count
	}
	if counts[events.ConfigMismatch] != 0 || counts[events.ConfigDiffers] != 1 || m.apart {
		t.Errorf("counted as %d mismatches and %d harmless differences, want none and 1", counts[events.ConfigMismatch], counts[events.ConfigDiffers])
	}
}

// Packets of another protocol version are reported once. docs/protocol §14.4, §18.2.
func TestVersionsDiffer(t *testing.T) {
	ctx := testContext(t)
	url := udpURL(t)
	m := newMismatches()
	subBus := openBus(t, m.config(), url)
	subscribe(t, subBus, "x")
	group := subBus.Stats().Groups[0].Address
	conn := dialGroup(t, group)
	heartbeat := func(publisher events.ID, version byte, tag uint32) []byte {
		b := wire.AppendHeartbeat(nil, wire.Header{GroupTag: tag, Publisher: publisher, Epoch: 1},
			&wire.Heartbeat{SentAt: 1, PacketSize: 1472, Interval: time.Second, StatusInterval: time.Second})
		b[2] = version
		return b
	}
	tag := wire.GroupTag(group)
	for range 3 {
		conn.Write(heartbeat(5, 2, tag+1)) // with the tag of other addresses
		conn.Write(heartbeat(6, 2, tag))
	}
	e := m.first(t, ctx)
	if d := e.Differences[0]; e.Publisher != 6 || len(e.Differences) != 1 || d.Field != events.FieldVersion || d.Ours != "1" || d.Theirs != "2" || e.Address == "" {
		t.Errorf("mismatch %+v, want one difference with publisher 6: version 1 here, 2 there", e)
	}
	conn.Write(heartbeat(7, 3, tag)) // a single packet may be damaged, and is not reported
	conn.Write(heartbeat(6, 2, tag))
	conn.Write(heartbeat(8, 9, tag))
	conn.Write(heartbeat(8, 9, tag))
	<-m.news
	if n := m.count(); n != 2 || m.all[1].Publisher != 8 {
		t.Errorf("%d mismatches reported, want 2, the second with publisher 8: %v", n, m.all)
	}
}
