package pubsub

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// recordedEvents collects the events of a bus.
type recordedEvents struct {
	mu  sync.Mutex
	all []events.Event // under mu
}

func (h *recordedEvents) on(e events.Event) {
	h.mu.Lock()
	h.all = append(h.all, e)
	h.mu.Unlock()
}

// await waits for the first event of a kind.
func (h *recordedEvents) await(t *testing.T, kind events.Kind) events.Event {
	t.Helper()
	for range 6000 {
		if e, ok := h.first(kind); ok {
			return e
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("no event %s", kind)
	return events.Event{}
}

func (h *recordedEvents) first(kind events.Kind) (events.Event, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.all {
		if e.Kind == kind {
			return e, true
		}
	}
	return events.Event{}, false
}

// A publisher gets events with the names of subscribers that come up and leave.
func TestSubscriberUpAndLeft(t *testing.T) {
	ctx := testContext(t)
	url := udpURL(t)
	var recorded recordedEvents
	a := openBus(t, Config{OnEvent: recorded.on}, url)
	p := publisher(t, a, "x")
	b := openBus(t, Config{Name: "desk-7"}, url)
	sub := subscribe(t, b, "x")
	wait(t, ctx, p, 1)
	publish(t, ctx, p, "hello")
	want(t, ctx, sub, "hello")
	up := recorded.await(t, events.SubscriberUp)
	b.Close()
	left := recorded.await(t, events.SubscriberLeft)
	for _, e := range []events.Event{up, left} {
		if e.Name != "desk-7" || e.Subscriber == 0 || e.Address == "" || e.Group == "" || !strings.Contains(e.String(), "desk-7 at ") {
			t.Errorf("event %v (%+v), want subscriber desk-7 with its address and group", e, e)
		}
	}
	if left.Subscriber != up.Subscriber || left.Behind > 1 { // the message just read may not be released yet
		t.Errorf("subscriber left %+v, up %+v, want the same one, at most 1 packet behind", left, up)
	}
}

// BadPackets reports damaged packets with their source address, for the 1st, 2nd, 4th … packet.
func TestBadPacketsAreReported(t *testing.T) {
	var recorded recordedEvents
	b := openBus(t, Config{OnEvent: recorded.on}, udpURL(t))
	subscribe(t, b, "x")
	w := newRawPublisher(t, b.Stats().Groups[0].Address)
	for b.Stats().Groups[0].Packets == 0 { // until the group is joined
		w.publish("first")
		time.Sleep(time.Millisecond)
	}
	const n = 100
	for i := 0; b.Stats().Groups[0].Damaged < n; i++ { // the kernel may drop some
		bad := make([]byte, wire.DataHeaderLen+20)
		wire.PutDataHeader(bad, w.header, 1472)
		wire.SetSeq(bad, uint64(i))
		wire.SetChecksum(bad)
		bad[len(bad)-1]++
		if _, err := w.conn.Write(bad); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Microsecond)
	}
	e := recorded.await(t, events.BadPackets)
	if e.Address != fmt.Sprint(w.conn.LocalAddr()) || e.Behind == 0 || !strings.Contains(e.String(), e.Address) {
		t.Errorf("event %v (%+v), want bad packets from %v", e, e, w.conn.LocalAddr())
	}
	recorded.mu.Lock()
	defer recorded.mu.Unlock()
	reported := 0
	for _, e := range recorded.all {
		if e.Kind == events.BadPackets {
			reported++
		}
	}
	if reported > 7 {
		t.Errorf("reported %d times of %d packets, want at most 7", reported, n)
	}
}

// OnEvent may call Losses; events that this causes are emitted after it has returned.
func TestLossesInOnEvent(t *testing.T) {
	ctx := testContext(t)
	url := memURL(t)
	reported := make(chan events.Event, 1000)
	var b *Bus
	ready := make(chan struct{})
	b = openBus(t, Config{Faults: "loss=0.2,seed=7", OnEvent: func(e events.Event) {
		<-ready
		b.Losses()
		reported <- e
	}}, url)
	close(ready)
	sub, p := subscribe(t, b, "x"), publisher(t, openBus(t, Config{}, url), "x")
	wait(t, ctx, p, 1)
	for i := range 200 {
		publish(t, ctx, p, fmt.Sprint(i))
		want(t, ctx, sub, fmt.Sprint(i))
	}
	b.Losses()
	for {
		select {
		case e := <-reported:
			if e.Kind == events.PacketsDropped && e.Cause == "injected" && e.Behind > 0 {
				return
			}
		case <-ctx.Done():
			t.Fatal("no event PacketsDropped")
		}
	}
}
