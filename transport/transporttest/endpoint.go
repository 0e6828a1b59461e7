package transporttest

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/transport"
)

// testTimeout bounds every wait for an expected result. It is long, because it expires only when a test fails.
const testTimeout = 20 * time.Second

// fabric is a Fabric with the endpoints opened on it so far.
type fabric struct {
	open Fabric
	all  []*endpoint
}

// endpoint is a transport with the test as its loop: the test polls all endpoints in turn, copies what
// arrived and releases it.
type endpoint struct {
	transport.Transport
	t      *testing.T
	fabric *fabric
	batch  *transport.Batch
	got    []packet
	events []transport.Event
	closed bool // Poll has reported the end
	hold   bool // keep trains in held instead of releasing them
	held   []transport.Train
	onRecv func(tr *transport.Train) // before the release
}

// packet is one received packet, copied.
type packet struct {
	group int
	data  []byte
}

func (f *fabric) endpoint(t *testing.T) *endpoint { return f.endpointWith(t, Options{}) }

func (f *fabric) endpointWith(t *testing.T, o Options) *endpoint {
	t.Helper()
	e := &endpoint{Transport: f.open.Open(t, o), t: t, fabric: f, batch: transport.NewBatch(64)}
	f.all = append(f.all, e)
	t.Cleanup(e.end)
	return e
}

// end closes the endpoint and polls until the transport reports the end.
func (e *endpoint) end() {
	if err := e.Close(); err != nil {
		e.t.Errorf("Close: %v", err)
	}
	for limit := time.Now().Add(testTimeout); !e.closed; {
		if e.poll(); time.Now().After(limit) {
			e.t.Fatal("Poll does not report the end of a closed transport")
		}
	}
}

// poll polls once and collects trains and events. It returns the number of trains.
func (e *endpoint) poll() int {
	if e.closed {
		return 0
	}
	err := e.Poll(e.batch)
	if errors.Is(err, net.ErrClosed) {
		e.closed = true
		return 0
	}
	if err != nil {
		e.t.Fatalf("Poll: %v", err)
	}
	e.events = append(e.events, e.batch.Events...)
	for i := range e.batch.Trains {
		tr := &e.batch.Trains[i]
		if tr.SegmentSize <= 0 || len(tr.Data) == 0 {
			e.t.Fatalf("train with %d bytes in segments of %d", len(tr.Data), tr.SegmentSize)
		}
		for j := range tr.Count() {
			e.got = append(e.got, packet{tr.Group, bytes.Clone(tr.Packet(j))})
		}
		if e.onRecv != nil {
			e.onRecv(tr)
		}
		if e.hold {
			e.held = append(e.held, *tr)
		} else {
			e.Release(tr)
		}
	}
	return len(e.batch.Trains)
}

// until polls all endpoints of the fabric until cond holds.
func (f *fabric) until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	limit := time.Now().Add(testTimeout)
	for !cond() {
		busy := 0
		for _, e := range f.all {
			busy += e.poll()
		}
		if cond() {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("timeout waiting until %s", what)
		}
		if busy == 0 && len(f.all) > 0 && !f.all[0].closed {
			f.all[0].Wait(100 * time.Microsecond)
		}
	}
}

// join joins groups as a receiver and waits for the events.
func (e *endpoint) join(groups ...int) {
	e.t.Helper()
	for _, g := range groups {
		if err := e.Join(g); err != nil {
			e.t.Fatalf("Join(%d): %v", g, err)
		}
		e.awaitEvent(g, transport.RoleReceiver, transport.Joined)
	}
}

// leave leaves group and waits for the event.
func (e *endpoint) leave(group int) {
	e.t.Helper()
	if err := e.Leave(group); err != nil {
		e.t.Fatalf("Leave(%d): %v", group, err)
	}
	e.awaitEvent(group, transport.RoleReceiver, transport.Left)
}

// awaitEvent waits for an event and removes it from the list.
func (e *endpoint) awaitEvent(group int, role transport.Role, state transport.Membership) {
	e.t.Helper()
	find := func() int {
		for i, ev := range e.events {
			if ev.Group == group && ev.Role == role && ev.State == state {
				return i
			}
		}
		return -1
	}
	e.fabric.until(e.t, fmt.Sprintf("event %v of group %d as %v", state, group, role), func() bool { return find() >= 0 })
	i := find()
	e.events = append(e.events[:i], e.events[i+1:]...)
}

// sender makes a sender and waits until it may send.
func (e *endpoint) sender(group int) transport.Sender {
	e.t.Helper()
	s, err := e.NewSender(group)
	if err != nil {
		e.t.Fatalf("NewSender(%d): %v", group, err)
	}
	return s
}

// firstSender makes the first sender of group, and waits for its event.
func (e *endpoint) firstSender(group int) transport.Sender {
	e.t.Helper()
	s := e.sender(group)
	e.awaitEvent(group, transport.RoleSender, transport.Joined)
	return s
}

// send sends the whole train, and retries while the fabric is busy.
func (e *endpoint) send(s transport.Sender, out *transport.Outbound) {
	e.t.Helper()
	o := *out
	e.fabric.until(e.t, fmt.Sprintf("a train of %d packets is accepted", out.Count), func() bool {
		n, err := s.Send(&o)
		if n < 0 || n > o.Count || (n < o.Count) != (err != nil) {
			e.t.Fatalf("Send of %d packets: %d sent, error %v, want an error unless all are sent", o.Count, n, err)
		}
		if err != nil && !errors.Is(err, transport.ErrBusy) && !errors.Is(err, transport.ErrNotReady) {
			e.t.Fatalf("Send of %d packets: error %v, want none, %v or %v", o.Count, err, transport.ErrBusy, transport.ErrNotReady)
		}
		o.Data, o.Lens, o.Count = o.Data[min(n*o.Stride, len(o.Data)):], o.Lens[n:], o.Count-n
		return err == nil
	})
}

// settle sends a mark to group and polls until every receiver has it, so that everything sent before has arrived or is
// lost. It removes the mark.
func (f *fabric) settle(t *testing.T, from *endpoint, s transport.Sender, group int, receivers ...*endpoint) {
	t.Helper()
	mark := []byte("end of the packets before")
	from.send(s, one(mark))
	for _, r := range receivers {
		f.until(t, "the mark arrives", func() bool {
			for i, p := range r.got {
				if p.group == group && bytes.Equal(p.data, mark) {
					r.got = append(r.got[:i], r.got[i+1:]...)
					return true
				}
			}
			return false
		})
	}
	f.drain()
}

// settleLossy is settle for a receiver with a queue that may be full. It sends marks until the last one has arrived:
// then nothing is on its way, not even a mark.
func (f *fabric) settleLossy(t *testing.T, s transport.Sender, to *endpoint) {
	t.Helper()
	sent := 0
	var last []byte
	var again time.Time
	f.until(t, "the last mark arrives", func() bool {
		if sent > 0 && slices.ContainsFunc(to.got, func(p packet) bool { return bytes.Equal(p.data, last) }) {
			return true
		}
		if now := time.Now(); now.After(again) {
			mark := fmt.Appendf(nil, "mark %d", sent)
			n, err := s.Send(one(mark))
			if err != nil && !errors.Is(err, transport.ErrBusy) {
				t.Fatal(err)
			}
			if n == 1 {
				sent, last, again = sent+1, mark, now.Add(10*time.Millisecond) // resend later, as it may be lost
			}
		}
		return false
	})
}

// drain polls all endpoints until nothing arrives, with pauses in which goroutines that deliver packets can run.
func (f *fabric) drain() {
	limit := time.Now().Add(testTimeout)
	for quiet := 0; quiet < 3; quiet++ {
		for _, e := range f.all {
			for e.poll() > 0 {
				if quiet = 0; time.Now().After(limit) {
					e.t.Fatal("packets keep arriving: is another endpoint on this fabric?")
				}
			}
			if !e.closed {
				e.Wait(100 * time.Microsecond)
			}
		}
	}
}

// want checks that exactly the packets of want have arrived in this order, and removes them.
func (e *endpoint) want(group int, want [][]byte) {
	e.t.Helper()
	e.fabric.until(e.t, fmt.Sprintf("%d packets arrive", len(want)), func() bool { return len(e.got) >= len(want) })
	for i, p := range e.got {
		if i >= len(want) {
			e.t.Fatalf("%d packets arrived, want %d; the first of the rest has %d bytes", len(e.got), len(want), len(p.data))
		}
		if p.group != group {
			e.t.Fatalf("packet %d has group %d, want %d", i, p.group, group)
		}
		if !bytes.Equal(p.data, want[i]) {
			e.t.Fatalf("packet %d of %d differs: %s", i, len(want), difference(p.data, want[i]))
		}
	}
	e.got = e.got[:0]
}

func difference(got, want []byte) string {
	if len(got) != len(want) {
		return fmt.Sprintf("%d bytes, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			return fmt.Sprintf("byte %d of %d is %#x, want %#x", i, len(want), got[i], want[i])
		}
	}
	return "equal"
}
