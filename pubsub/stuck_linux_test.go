package pubsub

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/transport/udp"
)

// A publisher whose interface goes down reports it, by an event and in the errors of its calls, with every flow
// control; when the interface is back it continues, and nothing is lost. docs/protocol §8.1.
func TestNothingCanBeSent(t *testing.T) {
	t.Parallel() // the test mostly waits
	if !testenv.Namespace(t) {
		return
	}
	testenv.AddVeth(t, "near", "far", 0)
	testenv.AddAddr(t, "near", "10.88.0.1/24")
	testenv.LinkUp(t, "near")
	testenv.LinkUp(t, "far")
	ctx := testContext(t)
	tr, err := udp.Open(overWire("near"))
	if err != nil {
		t.Fatal(err)
	}
	reported := &eventLog{}
	b, err := Config{WindowBytes: 64 << 10, FlowControl: FlowNone, OnEvent: reported.event}.OpenTransport(tr)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	p := publisher(t, b, "x")
	publish(t, ctx, p, "before")

	testenv.LinkDown(t, "near")
	e := reported.await(t, ctx, events.CannotSend)
	if e.For < time.Second || !strings.Contains(e.Err.Error(), "interface near is down") || !strings.Contains(e.String(), "nothing was sent for ") {
		t.Errorf("event %v (%+v), want that interface near is down, for at least 1 s", e, e)
	}
	msg := make([]byte, 1000)
	taken := 0
	for err = nil; err == nil; taken++ {
		err = p.TryPublish(msg)
	}
	var pressure *events.BackPressureError
	if !errors.As(err, &pressure) || pressure.Reason != events.ReasonMemory || pressure.Err == nil || !strings.Contains(err.Error(), "nothing could be sent for ") || !strings.Contains(err.Error(), "near is down") {
		t.Errorf("after %d messages: %v", taken, err)
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if err := p.Publish(short, msg); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "near is down") {
		t.Errorf("Publish until the context ends: error %v, want %v and that near is down", err, context.DeadlineExceeded)
	}
	if st := b.Stats().Publications[0]; st.Blocked != events.ReasonMemory || st.Stuck < time.Second {
		t.Errorf("blocked by %v, stuck for %v, want %v for at least 1 s", st.Blocked, st.Stuck, events.ReasonMemory)
	}

	testenv.LinkUp(t, "near")
	if e := reported.await(t, ctx, events.SendsAgain); e.For < time.Second {
		t.Errorf("event %+v, want one after at least 1 s", e)
	}
	publish(t, ctx, p, "behind")
	if err := p.Flush(ctx); err != nil {
		t.Error(err)
	}
	st := b.Stats().Publications[0]
	if sent := st.MessagesSent; st.Stuck != 0 || sent < uint64(taken) {
		t.Errorf("stuck for %v, %d messages sent of %d, want 0 and at least as many", st.Stuck, sent, taken)
	}
}
