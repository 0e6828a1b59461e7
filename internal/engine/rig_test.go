package engine

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/slow"
	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/mem"
)

// Policies without a bound.
var (
	policyAuto  = Policy{Kind: slow.Auto}
	policyBlock = Policy{Kind: slow.Block}
)

// watched is a transport that counts its polls. They return errGone while fail is set.
type watched struct {
	transport.Transport
	polls atomic.Int64
	fail  atomic.Bool
}

var errGone = errors.New("the device is gone")

func (t *watched) Poll(b *transport.Batch) error {
	t.polls.Add(1)
	if t.fail.Load() {
		return errGone
	}
	return t.Transport.Poll(b)
}

// newLoop opens a loop over mem, on a fabric with the test's name.
func newLoop(t testing.TB, cfg Config) (*watched, *Loop) {
	t.Helper()
	return newLoopOver(t, cfg, func(tr transport.Transport) transport.Transport { return tr })
}

func newLoopOver(t testing.TB, cfg Config, around func(transport.Transport) transport.Transport) (*watched, *Loop) {
	t.Helper()
	inner, err := mem.Open(mem.Config{Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	tr := &watched{Transport: around(inner)}
	l := start(tr, cfg)
	t.Cleanup(func() {
		now, cancel := context.WithCancel(context.Background())
		cancel()
		l.Close(now)
	})
	return tr, l
}

// subscribeTo subscribes to new messages of a topic.
func subscribeTo(t testing.TB, l *Loop, topic TopicName, p Policy, h Handler) *Subscription {
	t.Helper()
	s, err := l.Subscribe([]TopicName{topic}, p, From{}, false, h)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// start opens a loop with the defaults of testConfig.
func start(t transport.Transport, cfg Config) *Loop { return Open(t, testConfig(cfg)) }

// testConfig fills in defaults. Timeouts are long, because a loaded host delays repairs and statuses.
func testConfig(c Config) Config {
	c.WindowBytes, c.FlushAfter = cmp.Or(c.WindowBytes, 8<<20), cmp.Or(c.FlushAfter, 50*time.Microsecond)
	c.WindowsBytes = cmp.Or(c.WindowsBytes, max(24<<20, c.WindowBytes))
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	c.StateShare = cmp.Or(c.StateShare, 0.1)
	s, r := &c.Sender, &c.Receiver
	s.RepairShare, s.Silence = cmp.Or(s.RepairShare, 0.5), cmp.Or(s.Silence, 10*time.Second)
	r.WindowBytes, r.MemoryBytes = cmp.Or(r.WindowBytes, 8<<20), cmp.Or(r.MemoryBytes, 64<<20)
	r.MaxStreams, c.MaxMessage = cmp.Or(r.MaxStreams, 64), cmp.Or(c.MaxMessage, wire.MaxMessage)
	r.Deadline = cmp.Or(r.Deadline, time.Minute)
	return c
}

func publication(t *testing.T, l *Loop, name string) (*Publication, *topics.Topic) {
	t.Helper()
	p, err := l.Publication(0)
	if err != nil {
		t.Fatal(err)
	}
	topic, err := p.Topic(name)
	if err != nil {
		t.Fatal(err)
	}
	return p, topic
}

// stalled subscribes to topic x, never reads, and waits until p detects the subscription.
func stalled(t *testing.T, p *Publication, topic *topics.Topic) *Subscription {
	t.Helper()
	_, l := newLoop(t, Config{Receiver: reliable.ReceiverConfig{WindowBytes: 64 << 10}})
	s, err := l.Subscribe([]TopicName{{Name: "x", Group: 0}}, policyBlock, From{}, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := p.WaitReceivers(ctx, topic.ID, 1); err != nil {
		t.Fatal(err)
	}
	return s
}

// awaitBlocked waits until a publishing goroutine waits for room.
func awaitBlocked(p *Publication) {
	for {
		p.mu.Lock()
		n := p.waiters.n
		p.mu.Unlock()
		if n > 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}
