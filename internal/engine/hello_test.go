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

// other is a transport whose fabric is, or seems to be, configured differently.
type other struct {
	transport.Transport
	groups      int  // if not 0
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

// mismatchOf waits for the first mismatch that is reported.
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
			t.Fatal("no mismatch was reported")
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

// A publisher that sends packets without a checksum, where one is demanded, is refused, as before, and reported.
// docs/protocol §14.4.
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
		t.Errorf("reported %+v", m)
	}
	st, _ := l.Stats()
	if g := st.Groups[0]; g.Damaged == 0 || g.Streams != 0 {
		t.Errorf("%+v", g.Receiver)
	}
}

// A search joins group 0 for a moment and leaves it; a subscription to the group, then or meanwhile, makes the bus a
// member as ever. docs/protocol §14.3.
func TestSearchJoinsForAMoment(t *testing.T) { synctest.Test(t, testSearchJoinsForAMoment) }

func testSearchJoinsForAMoment(t *testing.T) {
	var joins, leaves atomic.Int64
	_, l := newLoopOver(t, Config{Receiver: reliable.ReceiverConfig{MaxMessage: 1 << 10}}, func(tr transport.Transport) transport.Transport {
		return other{Transport: tr, joins: &joins, leaves: &leaves}
	})
	_, far := newLoop(t, Config{})
	p, topic := publication(t, far, "x") // in group 0
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	subscribeTo(t, l, TopicName{Name: "elsewhere", Group: 3}, policyAuto, handlerFuncs{other: func(*Delivery) {}})
	until := func(what string, n *atomic.Int64) {
		t.Helper()
		for n.Load() == 0 {
			if ctx.Err() != nil {
				t.Fatalf("it does not %s", what)
			}
			time.Sleep(time.Millisecond)
		}
	}
	until("search", &joins)
	until("leave", &leaves)
	var stats discovery.Stats
	l.do(func() { stats = l.hellos.g.Stats() })
	if stats.Heard == 0 || stats.Mismatches != 0 {
		t.Errorf("%+v", stats)
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
		t.Errorf("%+v, %v", d, err)
	}
	if st, _ := l.Stats(); !st.Groups[0].Joined {
		t.Error("group 0 is not joined")
	}
}

// A bus that has detected a publisher of each of its topics does not search.
func TestNoSearchWhereAllIsHeard(t *testing.T) { synctest.Test(t, testNoSearchWhereAllIsHeard) }

func testNoSearchWhereAllIsHeard(t *testing.T) {
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
	// When the second that publishers are given to be heard is over, it looks again
	// after five.
	for after := l.now().Add(2 * time.Second); l.now() < after; time.Sleep(10 * time.Millisecond) {
	}
	var st discovery.Stats
	var due reliable.Instant
	l.do(func() { st, due = l.hellos.g.Stats(), l.hellos.g.Deadline() })
	if st.Searches != 0 || due.Sub(l.now()) < time.Second {
		t.Errorf("%+v, and it looks again in %v", st, due.Sub(l.now()))
	}
}

// A subscription to group 0, while a search has joined it, takes the membership over.
func TestSearchIsTakenOver(t *testing.T) { synctest.Test(t, testSearchIsTakenOver) }

func testSearchIsTakenOver(t *testing.T) {
	var joins, leaves atomic.Int64
	_, l := newLoopOver(t, Config{}, func(tr transport.Transport) transport.Transport {
		return other{Transport: tr, joins: &joins, leaves: &leaves}
	})
	handler := handlerFuncs{other: func(*Delivery) {}}
	subscribeTo(t, l, TopicName{Name: "elsewhere", Group: 3}, policyAuto, handler)
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
		t.Errorf("left %d times, joined %v", leaves.Load(), st.Groups[0].Joined)
	}
}

// answersAt hands a publisher replies as they come from a socket.
type answersAt struct{ transport.Sender }

func (answersAt) ReadReplies(func([]byte)) {}
func (answersAt) ReplyAddress() string     { return "10.0.0.7:40233" }

// Answers that a publisher reads on its way are kept for the loop: a few, however many
// come.
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
			t.Fatal("a hello is not kept")
		}
	}
	if l.hellos.keep([]byte("anything else that comes"), answersAt{}) {
		t.Error("anything is kept")
	}
	l.hellos.mu.Lock()
	n := len(l.hellos.answers)
	l.hellos.mu.Unlock()
	if n != keptHellos {
		t.Errorf("%d are kept", n)
	}
	close(stop)
	if m := mismatchOf(t, ch); m.Address != "10.0.0.7:40233" || m.Publisher != 100 {
		t.Errorf("reported %+v", m)
	}
}

// If the group for hellos cannot be joined, only hellos are affected.
func TestNoHelloCanBeSent(t *testing.T) {
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
			t.Error("it is still taken for a sender")
		}
	})
	select {
	case e := <-ch:
		t.Errorf("reported %v", e.Kind)
	default:
	}
}

// A hello that cannot be sent is said once a minute, as long as it lasts, unless the transport is busy or its group is not joined:
// then it comes soon.
func TestHelloCannotBeSent(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int64
	}{{fmt.Errorf("udp: sendmsg: %w", syscall.EPERM), 3}, {transport.ErrBusy, 0}, {transport.ErrNotReady, 0}} {
		synctest.Test(t, func(t *testing.T) {
			var all, with atomic.Int64
			_, l := newLoopOver(t, Config{Wait: WaitPark, Logger: slog.New(lines{&all, &with, report.HelloFailed.Text})}, func(tr transport.Transport) transport.Transport {
				return &refusing{Transport: tr, err: c.err}
			})
			publication(t, l, "x")
			time.Sleep(150 * time.Second)
			if n := with.Load(); n != c.want {
				t.Errorf("%v: said %d times, want %d", c.err, n, c.want)
			}
		})
	}
}
