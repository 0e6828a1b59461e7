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

// mismatches collects what a bus tells.
type mismatches struct {
	mu    sync.Mutex
	all   []*events.ConfigMismatchError // under mu
	rel   []bool                        // under mu
	apart bool                          // under mu: one was told to be no harmless one
	news  chan struct{}
	log   strings.Builder // under mu: what was logged
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

// first waits for the first.
func (m *mismatches) first(t *testing.T, ctx context.Context) *events.ConfigMismatchError {
	t.Helper()
	select {
	case <-m.news:
	case <-ctx.Done():
		t.Fatal("nothing was told")
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

// farTopic is one that maps to other groups where there are 64 of them, and not to
// group 0 in either.
func farTopic(a, b *Bus) string {
	for i := 0; ; i++ {
		topic := fmt.Sprintf("far.%d", i)
		if g, h := a.Group(topic), b.Group(topic); g != h && g != 0 && h != 0 {
			return topic
		}
	}
}

// A subscriber with another number of groups hears nothing of the publisher: both are
// told why, and who waits for it has an error instead of nothing for ever.
// docs/protocol §14.4, §14.6.
func TestGroupsDiffer(t *testing.T) {
	t.Parallel() // it waits most of the time
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
		t.Fatalf("waiting for subscribers: %v", err)
	}
	if d := apart.Differences[0]; d.Field != events.FieldGroups || d.Ours != "64" || d.Theirs != "16" || d.Advice == "" {
		t.Errorf("differences %+v", apart.Differences)
	}
	for _, c := range []struct {
		m            *mismatches
		of           *Bus
		ours, theirs string
	}{{here, pubBus, "16", "64"}, {there, subBus, "64", "16"}} {
		e := c.m.first(t, ctx)
		if e.Publisher != c.of.ID() || e.Differences[0].Ours != c.ours || e.Differences[0].Theirs != c.theirs || e.Address == "" || !c.m.rel[0] {
			t.Errorf("told %+v, relevant %v", e, c.m.rel[0])
		}
		if s := c.m.logged(); !strings.Contains(s, "level=WARN") || !strings.Contains(s, fmt.Sprintf("groups=%q", c.theirs+" there, "+c.ours+" here")) || !strings.Contains(s, "do=") {
			t.Errorf("logged %s", s)
		}
	}
	// It is in the subscription's stream, too.
	_, err = sub.Next(ctx)
	var event *PublisherEvent
	if !errors.As(err, &event) || event.Kind != events.ConfigMismatch || !strings.Contains(event.Error(), "groups 64 there, 16 here") {
		t.Errorf("in the stream: %v", err)
	}
	// A matching subscriber ends the wait.
	good := openBus(t, Config{}, url+"&groups=64")
	subscribe(t, good, topic)
	wait(t, ctx, pub, 1)
	if n, m := here.count(), there.count(); n != 1 || m != 1 {
		t.Errorf("told %d and %d times", n, m)
	}
}

// Who is configured alike, or subscribes on other addresses, raises no alarm; nor does
// a restart.
// docs/protocol §14.7.
func TestNoFalseAlarm(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // it waits most of the time
	ctx := testContext(t)
	url := udpURL(t)
	m := newMismatches()
	pubBus, subBus := openBus(t, m.config(), url), openBus(t, m.config(), url)
	elsewhere := openBus(t, m.config(), strings.Replace(url, "239.20.0.0/16", "239.77.0.0/16", 1)+"&groups=64")
	subscribe(t, elsewhere, "x")
	sub := subscribe(t, subBus, "x")
	subscribe(t, subBus, "nobody.publishes.it") // it searches
	for range 2 {
		pub := publisher(t, pubBus, "x")
		wait(t, ctx, pub, 1)
		publish(t, ctx, pub, "hello")
		want(t, ctx, sub, "hello")
		time.Sleep(1500 * time.Millisecond) // a search, and some hellos
		pubBus.Close()
		pubBus = openBus(t, m.config(), url)
	}
	if n := m.count(); n > 0 {
		t.Errorf("told %d times: %v", n, m.all)
	}
}

// Packets of another size are heard; it is told once, as information.
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
		t.Errorf("told %+v", e)
	}
	if s := m.logged(); strings.Contains(s, "level=WARN") || !strings.Contains(s, "9000 there, 1472 here") {
		t.Errorf("logged %s", s)
	}
	counts := make(map[events.Kind]uint64) // what alerts go by
	for _, c := range subBus.Stats().Events {
		counts[c.Kind] = c.Count
	}
	if counts[events.ConfigMismatch] != 0 || counts[events.ConfigDiffers] != 1 || m.apart {
		t.Errorf("counted as %d mismatches and %d harmless differences", counts[events.ConfigMismatch], counts[events.ConfigDiffers])
	}
}

// Packets of another version are told of, and that they are.
// docs/protocol §14.4, §18.2.
func TestVersionsDiffer(t *testing.T) {
	ctx := testContext(t)
	url := udpURL(t)
	m := newMismatches()
	subBus := openBus(t, m.config(), url)
	subscribe(t, subBus, "x")
	group := subBus.Stats().Groups[0].Address
	conn := dialGroup(t, group)
	heartbeat := func(publisher uint64, version byte, tag uint32) []byte {
		b := wire.AppendHeartbeat(nil, wire.Header{GroupTag: tag, Publisher: publisher, Epoch: 1},
			&wire.Heartbeat{SentAt: 1, PacketSize: 1472, Interval: time.Second, StatusInterval: time.Second})
		b[2] = version
		return b
	}
	tag := wire.GroupTag(group)
	for range 3 {
		conn.Write(heartbeat(5, 2, tag+1)) // of other addresses
		conn.Write(heartbeat(6, 2, tag))
	}
	e := m.first(t, ctx)
	if d := e.Differences[0]; e.Publisher != 6 || len(e.Differences) != 1 || d.Field != events.FieldVersion || d.Ours != "1" || d.Theirs != "2" || e.Address == "" {
		t.Errorf("told %+v", e)
	}
	conn.Write(heartbeat(7, 3, tag)) // one may be damaged
	conn.Write(heartbeat(6, 2, tag))
	conn.Write(heartbeat(8, 9, tag))
	conn.Write(heartbeat(8, 9, tag))
	<-m.news
	if n := m.count(); n != 2 || m.all[1].Publisher != 8 {
		t.Errorf("told %d times: %v", n, m.all)
	}
}
