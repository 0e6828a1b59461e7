package engine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/fanfaremq/fanfare/internal/slow"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/mem"
)

// openLoops makes a bus of n loops over mem, on the fabric of the test's name.
func openLoops(t *testing.T, n int) *Loops {
	t.Helper()
	var ts []transport.Transport
	for range n {
		tr, err := mem.Open(mem.Config{Name: t.Name()})
		if err != nil {
			t.Fatal(err)
		}
		ts = append(ts, tr)
	}
	x := Open(ts, given(Config{}))
	t.Cleanup(func() {
		now, cancel := context.WithCancel(context.Background())
		cancel()
		x.Close(now)
	})
	return x
}

// taker is a handler that counts.
type taker struct{ n atomic.Int64 }

func (c *taker) Message(*reliable.Origin, *reliable.Track, uint64, []byte) { c.n.Add(1) }

func (c *taker) Run(_ *reliable.Origin, _ *reliable.Track, number uint64, body []byte, step, most int) ([]byte, uint64) {
	for {
		_, rest, ok := reliable.NextMessage(body, step, most)
		if !ok {
			return body, number
		}
		c.n.Add(1)
		body, number = rest, number+1
	}
}

func (c *taker) Other(*Delivery) {}

// While somebody holds every lock of one loop, and those that loops have in common, messages
// of another loop's groups are published, sent, received and delivered: so they touch none.
func TestLoopsShareNoLock(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	from, to := openLoops(t, 2), openLoops(t, 2)
	var got taker
	if _, err := to.Subscribe([]TopicName{{Name: "x", Group: 0}}, policyBlock, From{}, false, &got); err != nil {
		t.Fatal(err)
	}
	p, err := from.Publication(0)
	if err != nil {
		t.Fatal(err)
	}
	topic, err := p.Topic("x")
	if err != nil {
		t.Fatal(err)
	}
	other, err := from.Publication(1)
	if err != nil {
		t.Fatal(err)
	}
	if p.l == other.l || p.l != from.Of(2) {
		t.Fatal("groups are not divided among loops by their numbers")
	}
	if err := p.WaitReceivers(ctx, topic.ID, 1); err != nil {
		t.Fatal(err)
	}
	var unlock []func()
	hold := func(m interface {
		Lock()
		Unlock()
	}) {
		m.Lock()
		unlock = append(unlock, m.Unlock)
	}
	defer func() {
		for _, f := range unlock {
			f()
		}
	}()
	hold(&other.mu)
	for _, x := range []*Loops{from, to} {
		l, all := x.all[1], x.all[0].siblings
		hold(&l.mu)
		hold(&l.batcher.mu)
		hold(&l.hellos.mu)
		hold(&l.commands.mu)
		hold(&l.watchdog.mu)
		hold(&all.besides.mu)
		hold(&all.recent.mu)
		hold(&all.told.mu)
	}
	const n = 20_000
	for i := range n {
		if err := p.Publish(ctx, topic, fmt.Appendf(nil, "message %d", i), true); err != nil {
			t.Fatal(err)
		}
	}
	for got.n.Load() < n {
		if ctx.Err() != nil {
			t.Fatalf("%d of %d messages", got.n.Load(), n)
		}
		time.Sleep(time.Millisecond)
	}
}

// What a loop writes for messages shares no cache line with what another one does: the
// allocator puts objects one behind the other, and only those of some sizes begin with a line.
func TestLoopsShareNoLine(t *testing.T) {
	for name, size := range map[string]uintptr{
		"Loop": unsafe.Sizeof(Loop{}), "Publication": unsafe.Sizeof(Publication{}), "Exclusive": unsafe.Sizeof(Exclusive{}), "batcher": unsafe.Sizeof(batcher{}), "activity": unsafe.Sizeof(activity{}),
		"group": unsafe.Sizeof(group{}), "feed": unsafe.Sizeof(feed{}), "Subscription": unsafe.Sizeof(Subscription{}),
		"Sender": unsafe.Sizeof(reliable.Sender{}), "Writer": unsafe.Sizeof(reliable.Writer{}), "Receiver": unsafe.Sizeof(reliable.Receiver{}), "Stream": unsafe.Sizeof(reliable.Stream{}),
	} {
		if allocated := cap(append([]byte(nil), make([]byte, size)...)); allocated%64 != 0 {
			t.Errorf("a %s of %d bytes takes %d, so that it can share a cache line with the next one: pad it", name, size, allocated)
		}
	}
}

// The loops of a bus have one identity, and each of their goroutines ends with the bus.
func TestLoopsEnd(t *testing.T) {
	x := openLoops(t, 3)
	id, epoch := x.Publisher()
	for i, l := range x.all {
		if lid, lepoch := l.Publisher(); lid != id || lepoch != epoch || l.cfg.Receiver.ID != x.all[0].cfg.Receiver.ID {
			t.Errorf("loop %d is %x of %d, the first %x of %d", i, lid, lepoch, id, epoch)
		}
	}
	if err := x.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	for i, l := range x.all {
		if !l.Ended() {
			t.Errorf("loop %d runs on", i)
		}
		if l.watchdog.goroutine.Load() != 0 {
			t.Errorf("loop %d claims a goroutine that has ended: a later one may have its number", i)
		}
	}
	if !x.Ended() || x.EndedErr() != nil {
		t.Errorf("ended: %v, because of %v", x.Ended(), x.EndedErr())
	}
}

// Where one loop's transport fails, subscriptions with topics of it end, as a whole; those of
// other loops go on.
func TestLoopFails(t *testing.T) {
	var ts []transport.Transport
	for range 2 {
		tr, err := mem.Open(mem.Config{Name: t.Name()})
		if err != nil {
			t.Fatal(err)
		}
		ts = append(ts, &watched{Transport: tr})
	}
	x := Open(ts, given(Config{}))
	defer func() {
		now, cancel := context.WithCancel(context.Background())
		cancel()
		x.Close(now)
		for !x.Ended() {
			runtime.Gosched()
		}
	}()
	both, err := x.Subscribe([]TopicName{{Name: "a", Group: 0}, {Name: "b", Group: 1}}, policyAuto, From{}, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	conflated, err := x.Subscribe([]TopicName{{Name: "a", Group: 0}, {Name: "b", Group: 1}}, policyAuto, From{}, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	newest := conflated.Conflate(func(buf []byte, _ *reliable.Origin, _ *reliable.Track, _ uint64, _ []byte) []byte { return buf }, slow.Limits{Keys: 1, Bytes: 1})
	one, err := x.Subscribe([]TopicName{{Name: "a", Group: 0}}, policyAuto, From{}, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	ts[1].(*watched).fail.Store(true)
	ts[1].Wake()
	<-both.Ended()
	var d Delivery
	for _, next := range []func(context.Context, *Delivery) error{both.(*Joint).Next, newest.Next} {
		if err := next(context.Background(), &d); !errors.Is(err, errGone) {
			t.Errorf("it ends because of %v", err)
		}
	}
	for _, p := range both.(*Joint).all() {
		if !errors.Is(p.Err(), errGone) {
			t.Errorf("a part of it ends because of %v", p.Err())
		}
	}
	if err := one.Err(); err != nil {
		t.Errorf("a subscription of another loop has ended: %v", err)
	}
	if x.EndedErr() == nil || x.Ended() {
		t.Errorf("ended: %v, because of %v", x.Ended(), x.EndedErr())
	}
}

// ported is a transport whose port has dropped packets, which it and others count.
type ported struct{ transport.Transport }

func (p *ported) Stats() transport.Stats {
	return transport.Stats{PacketsReceived: 2, Unclaimed: 3, Violations: transport.Violations{PKeyViolations: 3, QKeyViolations: 3}}
}

// The statistics of a bus are the sums of its loops', but for what all count of one port.
func TestLoopsStats(t *testing.T) {
	var ts []transport.Transport
	for range 3 {
		tr, err := mem.Open(mem.Config{Name: t.Name()})
		if err != nil {
			t.Fatal(err)
		}
		ts = append(ts, &ported{tr})
	}
	x := Open(ts, given(Config{}))
	defer x.Close(context.Background())
	st, err := x.Stats()
	if got := st.Transport; err != nil || got.PacketsReceived != 6 || got.Unclaimed != 3 || got.PKeyViolations != 3 || got.QKeyViolations != 3 {
		t.Errorf("%+v, %v", got, err)
	}
	var ones Stats
	for _, counted := range []any{&ones.Transport, &ones.Seal, &ones.Sign} {
		count(t, reflect.ValueOf(counted).Elem())
	}
	sum := ones
	sum.add(&ones)
	if twice := 2 * ones.Transport.PacketsSent; sum.Transport.PacketsSent != twice || sum.Transport.Injected != twice {
		t.Errorf("summed up to %+v", sum.Transport)
	}
}

// count sets all counters in v to 1. There is nothing else in it, or adding would leave it out.
func count(t *testing.T, v reflect.Value) {
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Uint64:
			f.SetUint(1)
		case reflect.Struct:
			count(t, f)
		default:
			t.Errorf("%s.%s is a %s, and no counter", v.Type(), v.Type().Field(i).Name, f.Type())
		}
	}
}
