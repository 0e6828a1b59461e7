package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanfaremq/fanfare/internal/discovery"
	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/mem"
)

// other is a transport that reports another configuration, and counts joins and leaves of group 0.
type other struct {
	transport.Transport
	groups      int  // 0: as Transport
	unprotected bool // packets need a checksum
	joins       *atomic.Int64
	leaves      *atomic.Int64
}

func (t other) Capabilities() transport.Capabilities {
	c := t.Transport.Capabilities()
	if t.groups > 0 {
		c.Groups = t.groups
	}
	c.Checked = c.Checked && !t.unprotected
	return c
}

func (t other) Join(group int) error {
	if t.joins != nil && group == 0 {
		t.joins.Add(1)
	}
	return t.Transport.Join(group)
}

func (t other) Leave(group int) error {
	if t.leaves != nil && group == 0 {
		t.leaves.Add(1)
	}
	return t.Transport.Leave(group)
}

// mismatchOf returns the first reported mismatch.
func mismatchOf(t *testing.T, ch chan events.Event) *events.ConfigMismatchError {
	t.Helper()
	for end := time.After(time.Minute); ; {
		select {
		case e := <-ch:
			var m *events.ConfigMismatchError
			if e.Kind == events.ConfigMismatch && errors.As(e.Err, &m) {
				return m
			}
		case <-end:
			t.Fatal("no mismatch was reported within a minute, want one")
		}
	}
}

func configTo(ch chan events.Event) Config {
	return Config{Events: func(e events.Event) {
		select {
		case ch <- e:
		default:
		}
	}}
}

// A publisher that sends packets without a required checksum is refused and reported. docs/protocol §14.4.
func TestMissingChecksumIsReported(t *testing.T) {
	ch := make(chan events.Event, 64)
	_, l := newLoopOver(t, configTo(ch), func(tr transport.Transport) transport.Transport {
		return other{Transport: tr, unprotected: true}
	})
	subscribeTo(t, l, TopicName{Name: "x"}, policyAuto, handlerFuncs{other: func(*Delivery) {}})
	_, bare := newLoop(t, Config{Instance: events.Instance{Publisher: 77}})
	publication(t, bare, "x")
	m := mismatchOf(t, ch)
	if d := m.Differences[0]; m.Publisher != 77 || d.Field != events.FieldChecksum || d.Ours != "CRC-32C" || d.Theirs != "none" {
		t.Errorf("reported %+v, want the checksum of publisher 77: none instead of CRC-32C", m)
	}
	st, _ := l.Stats()
	if g := st.Groups[0]; g.Damaged == 0 || g.Streams != 0 {
		t.Errorf("counters %+v, want damaged packets and no stream", g.Receiver)
	}
}

// A search joins group 0 and leaves it. A later subscription to the group joins it as usual. docs/protocol §14.3.
func TestSearchJoinsAndLeaves(t *testing.T) { synctest.Test(t, testSearchJoinsAndLeaves) }

func testSearchJoinsAndLeaves(t *testing.T) {
	var joins, leaves atomic.Int64
	_, l := newLoopOver(t, Config{MaxMessage: 1 << 10}, func(tr transport.Transport) transport.Transport {
		return other{Transport: tr, joins: &joins, leaves: &leaves}
	})
	_, far := newLoop(t, Config{})
	p, topic := publication(t, far, "x") // in group 0
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	subscribeTo(t, l, TopicName{Name: "y", Group: 3}, policyAuto, handlerFuncs{other: func(*Delivery) {}})
	until := func(what string, n *atomic.Int64) {
		t.Helper()
		for n.Load() == 0 {
			if ctx.Err() != nil {
				t.Fatalf("the bus does not %s group 0 within a minute", what)
			}
			time.Sleep(time.Millisecond)
		}
	}
	until("join", &joins)
	until("leave", &leaves)
	var stats discovery.Stats
	l.do(func() { stats = l.hellos.g.Stats() })
	if stats.Heard == 0 || stats.Mismatches != 0 {
		t.Errorf("discovery counters %+v, want hellos and no mismatch", stats)
	}
	s := subscribeTo(t, l, TopicName{Name: "x", Group: 0}, policyAuto, nil)
	if err := p.WaitReceivers(ctx, topic.ID, 1); err != nil {
		t.Fatal(err)
	}
	if err := p.Publish(ctx, topic, []byte("hello"), true); err != nil {
		t.Fatal(err)
	}
	var d Delivery
	if err := s.Next(ctx, &d); err != nil || string(d.Data) != "hello" {
		t.Errorf("Next returned %+v and %v, want the message hello", d, err)
	}
	if st, _ := l.Stats(); !st.Groups[0].Joined {
		t.Error("group 0 is not joined, want it joined by the subscription")
	}
}

// A bus that has detected publishers of all of its topics does not search.
func TestNoSearchIfPublishersAreDetected(t *testing.T) {
	synctest.Test(t, testNoSearchIfPublishersAreDetected)
}

func testNoSearchIfPublishersAreDetected(t *testing.T) {
	_, far := newLoop(t, Config{})
	p, err := far.Publication(3)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Topic("x"); err != nil {
		t.Fatal(err)
	}
	_, l := newLoop(t, Config{})
	subscribeTo(t, l, TopicName{Name: "x", Group: 3}, policyAuto, handlerFuncs{other: func(*Delivery) {}})
	// A bus without a detected publisher searches after one second. A bus with one checks again only after five.
	for after := l.now().Add(2 * time.Second); l.now() < after; time.Sleep(10 * time.Millisecond) {
	}
	var st discovery.Stats
	var due reliable.Instant
	l.do(func() { st, due = l.hellos.g.Stats(), l.hellos.g.Deadline() })
	if st.Searches != 0 || due.Sub(l.now()) < time.Second {
		t.Errorf("discovery counters %+v, next check in %v, want no search and at least a second", st, due.Sub(l.now()))
	}
}

// A subscription to group 0 takes over the membership of a search.
func TestSubscriptionTakesOverSearch(t *testing.T) { synctest.Test(t, testSubscriptionTakesOverSearch) }

func testSubscriptionTakesOverSearch(t *testing.T) {
	var joins, leaves atomic.Int64
	_, l := newLoopOver(t, Config{}, func(tr transport.Transport) transport.Transport {
		return other{Transport: tr, joins: &joins, leaves: &leaves}
	})
	handler := handlerFuncs{other: func(*Delivery) {}}
	subscribeTo(t, l, TopicName{Name: "y", Group: 3}, policyAuto, handler)
	for joins.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	subscribeTo(t, l, TopicName{Name: "x", Group: 0}, policyAuto, handler)
	for {
		searching := true
		l.do(func() { searching = l.hellos.g.Searching() })
		if !searching {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	st, _ := l.Stats()
	if leaves.Load() != 0 || !st.Groups[0].Joined {
		t.Errorf("left group 0 %d times, joined %v, want 0 and true", leaves.Load(), st.Groups[0].Joined)
	}
}

// answersAt is a sender that reads replies from a socket at a fixed address.
type answersAt struct{ transport.Sender }

func (answersAt) ReadReplies(func([]byte)) {}
func (answersAt) ReplyAddress() string     { return "10.0.0.7:40233" }

// Answers to hellos that a publisher reads are kept for the loop, at most keptHellos of them.
func TestKeptHellosAreBounded(t *testing.T) {
	ch := make(chan events.Event, 64)
	_, l := newLoop(t, configTo(ch))
	busy, stop := make(chan struct{}), make(chan struct{})
	l.post(func() {
		close(busy)
		<-stop
	})
	<-busy
	tag := wire.GroupTag(l.t.GroupAddress(0))
	for i := range uint64(100) {
		b := wire.AppendHello(nil, wire.Header{GroupTag: tag, Publisher: events.ID(100 + i), Epoch: 1}, &wire.Hello{Settings: wire.SettingsOf(64, wire.Mapping{}, false), PacketSize: mem.DefaultPacketSize, Answer: true})
		if !l.hellos.keep(b, answersAt{}) || l.hellos.keep(b[:wire.HeaderLen], answersAt{}) != true {
			t.Fatalf("keep returned false for hello %d, want true", i)
		}
	}
	if l.hellos.keep([]byte("another packet"), answersAt{}) {
		t.Error("keep returned true for another packet, want false")
	}
	l.hellos.mu.Lock()
	n := len(l.hellos.answers)
	l.hellos.mu.Unlock()
	if n != keptHellos {
		t.Errorf("%d hellos are kept, want %d", n, keptHellos)
	}
	close(stop)
	if m := mismatchOf(t, ch); m.Address != "10.0.0.7:40233" || m.Publisher != 100 {
		t.Errorf("reported %+v, want publisher 100 at 10.0.0.7:40233", m)
	}
}

// If the group for hellos cannot be joined, only hellos are affected.
func TestHelloGroupFails(t *testing.T) {
	ch := make(chan events.Event, 64)
	_, l := newLoop(t, configTo(ch))
	if _, err := l.Publication(3); err != nil {
		t.Fatal(err)
	}
	l.do(func() {
		l.hellos.open(l.now())
		for _, role := range []transport.Role{transport.RoleSender, transport.RoleReceiver} {
			l.joined(&transport.Event{Group: 0, Role: role, State: transport.Failed, Err: transport.ErrGroupLimit})
		}
		if l.hellos.tx != nil || l.hellos.retryAt == 0 {
			t.Errorf("sender %v, next attempt at %v, want no sender and a later attempt", l.hellos.tx, l.hellos.retryAt)
		}
	})
	select {
	case e := <-ch:
		t.Errorf("reported %v, want no event", e.Kind)
	default:
	}
}

// A failure to send hellos is logged once a minute, unless the transport is only busy or not ready yet.
func TestHelloCannotBeSent(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int64
	}{{fmt.Errorf("udp: sendmsg: %w", syscall.EPERM), 3}, {transport.ErrBusy, 0}, {transport.ErrNotReady, 0}} {
		synctest.Test(t, func(t *testing.T) {
			var all, with atomic.Int64
			_, l := newLoopOver(t, Config{Wait: WaitPark, Logger: slog.New(lineCounter{&all, &with, report.HelloFailed.Text})}, func(tr transport.Transport) transport.Transport {
				return &refusing{Transport: tr, err: c.err}
			})
			publication(t, l, "x")
			time.Sleep(150 * time.Second)
			if n := with.Load(); n != c.want {
				t.Errorf("%v: logged %d times, want %d", c.err, n, c.want)
			}
		})
	}
}
