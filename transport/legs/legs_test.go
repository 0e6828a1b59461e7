package legs_test

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/legs"
	"github.com/fanfaremq/fanfare/transport/mem"
)

// rig is two endpoints on two networks in memory. The test polls them.
type rig struct {
	t        *testing.T
	a, b     *legs.Transport
	legs     []*breakable // of b, then of a
	s        transport.Sender
	got      [transport.MaxLegs]int // packets that b received on each leg
	reported []transport.Event
}

// breakable is a leg that fails on request.
type breakable struct {
	transport.Transport
	post   []transport.Event // events that the next Poll reports
	poll   error             // error that Poll returns
	send   error             // error of every Send
	refuse error             // error of every Join
}

func (b *breakable) Poll(x *transport.Batch) error {
	if b.poll != nil {
		return b.poll
	}
	err := b.Transport.Poll(x)
	x.Events = append(x.Events, b.post...)
	b.post = nil
	return err
}

func (b *breakable) Join(group int) error {
	if b.refuse != nil {
		b.post = append(b.post, transport.Event{Group: group, State: transport.Failed, Err: b.refuse})
		return nil
	}
	return b.Transport.Join(group)
}

func (b *breakable) NewSender(group int) (transport.Sender, error) {
	s, err := b.Transport.NewSender(group)
	return &breakableSender{s, b}, err
}

type breakableSender struct {
	transport.Sender
	b *breakable
}

func (s *breakableSender) Send(t *transport.Outbound) (int, error) {
	if s.b.send != nil {
		return 0, s.b.send
	}
	return s.Sender.Send(t)
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t}
	nets := []*mem.Network{mem.NewNetwork(), mem.NewNetwork()}
	open := func() *legs.Transport {
		var all []transport.Transport
		for _, n := range nets {
			l, err := mem.Open(mem.Config{Network: n, Groups: 4})
			if err != nil {
				t.Fatal(err)
			}
			r.legs = append(r.legs, &breakable{Transport: l})
			all = append(all, r.legs[len(r.legs)-1])
		}
		return join(t, all...)
	}
	r.b, r.a = open(), open()
	t.Cleanup(func() {
		for _, x := range []*legs.Transport{r.a, r.b} {
			x.Close()
			for b := transport.NewBatch(1); x.Poll(b) == nil; {
			}
		}
	})
	if err := r.b.Join(0); err != nil {
		t.Fatal(err)
	}
	s, err := r.a.NewSender(0)
	if err != nil {
		t.Fatal(err)
	}
	r.s = s
	return r
}

// send sends n packets and returns the number that count as sent.
func (r *rig) send(n int) (int, error) {
	out := &transport.Outbound{Data: make([]byte, 8*n), Stride: 8, Count: n, Lens: make([]uint16, n)}
	for i := range out.Lens {
		out.Lens[i] = 8
	}
	return r.s.Send(out)
}

// sendFor sends packets repeatedly for d, as a sender does while a leg is busy.
func (r *rig) sendFor(d time.Duration, n int) {
	for ; d > 0; d -= 5 * time.Millisecond {
		r.send(n)
		time.Sleep(5 * time.Millisecond)
	}
}

// poll collects events and trains.
func (r *rig) poll() {
	r.t.Helper()
	b := transport.NewBatch(8)
	for range 10 {
		for _, x := range []*legs.Transport{r.b, r.a} {
			if err := x.Poll(b); err != nil {
				r.t.Fatal(err)
			}
			for i := range b.Trains {
				r.got[b.Trains[i].Leg] += b.Trains[i].Count()
				x.Release(&b.Trains[i])
			}
			if x == r.b {
				r.reported = append(r.reported, b.Events...)
			}
		}
	}
}

// expect checks the events that b reported: the Membership of membership events, the EventKind of others.
func (r *rig) expect(want ...any) {
	r.t.Helper()
	r.poll()
	var got []any
	for _, e := range r.reported {
		if e.Kind == transport.MembershipChanged {
			got = append(got, e.State)
		} else {
			got = append(got, e.Kind)
		}
	}
	if !slices.Equal(got, want) {
		r.t.Fatalf("reported %+v, want %v", r.reported, want)
	}
	r.reported = nil
}

// Everything is sent on both legs, and each received train has the number of its leg.
func TestBothLegsCarryAll(t *testing.T) {
	r := newRig(t)
	r.expect(transport.Joined)
	if n, err := r.send(5); n != 5 || err != nil {
		t.Fatalf("Send: %d packets, error %v, want 5", n, err)
	}
	r.poll()
	if r.got != [transport.MaxLegs]int{5, 5} {
		t.Errorf("packets by leg: %v, want 5 and 5", r.got)
	}
	if st := r.a.Stats(); st.PacketsSent != 5 {
		t.Errorf("%d packets counted as sent, want 5", st.PacketsSent)
	}
	if r.s.Completed() != 5 {
		t.Errorf("%d packets completed, want 5", r.s.Completed())
	}
}

// A group is joined while at least one leg has joined it; a leg that has not is reported.
func TestMembershipOfLegs(t *testing.T) {
	unplugged := errors.New("unplugged")
	event := func(s transport.Membership) []transport.Event { return []transport.Event{{State: s, Err: unplugged}} }
	r := newRig(t)
	r.expect(transport.Joined)
	r.legs[1].post = event(transport.Lost)
	r.expect(transport.LegLost)
	if l := r.b.Stats().Legs; !l[0].Up || l[1].Up {
		t.Errorf("legs %+v, want leg 0 up and leg 1 down", l)
	}
	r.legs[0].post = event(transport.Lost)
	r.poll()
	if err := r.reported[len(r.reported)-1].Err; !errors.Is(err, unplugged) || err.Error() != "unplugged; unplugged" {
		t.Errorf("error %q, want those of both legs on one line", err)
	}
	r.expect(transport.LegLost, transport.Lost)
	r.legs[1].post = event(transport.Joined)
	r.expect(transport.LegJoined, transport.Joined)
	r.legs[0].post = event(transport.Joined)
	r.expect(transport.LegJoined)
	if err := r.b.Leave(0); err != nil {
		t.Fatal(err)
	}
	r.expect(transport.Left)

	// The group is left and joined again before the event is reported.
	if err := errors.Join(r.b.Join(0), r.b.Leave(0), r.b.Join(0)); err != nil {
		t.Fatal(err)
	}
	r.poll()
	r.reported = nil
	if err := errors.Join(r.b.Leave(0), r.b.Join(0)); err != nil {
		t.Fatal(err)
	}
	r.expect(transport.Left, transport.Joined)
	r.got = [transport.MaxLegs]int{}
	r.send(3)
	r.poll()
	if r.got != [transport.MaxLegs]int{3, 3} {
		t.Errorf("packets by leg: %v, want 3 and 3", r.got)
	}

	// One leg refuses, then both.
	r.legs[1].refuse = unplugged
	if err := r.b.Join(1); err != nil {
		t.Fatal(err)
	}
	r.expect(transport.Joined, transport.LegLost)
	r.legs[0].refuse = unplugged
	if err := r.b.Join(2); err != nil {
		t.Fatal(err)
	}
	r.expect(transport.LegLost, transport.Failed)
	r.legs[0].refuse, r.legs[1].refuse = nil, nil
	if err := errors.Join(r.b.Join(1), r.b.Join(2)); err != nil {
		t.Fatal(err)
	}
	r.expect(transport.LegJoined, transport.Joined, transport.LegJoined)
}

// A leg whose link is down does not become up because its groups are left, its senders closed, or a join is retried. It
// becomes up when it carries a group again, or when all groups that it did not carry are left and it carries the rest.
func TestLegStaysDownWhenGroupsAreLeft(t *testing.T) {
	down := errors.New("link down")
	lost := func(group int) transport.Event {
		return transport.Event{Group: group, State: transport.Lost, Err: down}
	}
	joined := func(group int) transport.Event { return transport.Event{Group: group, State: transport.Joined} }
	r := newRig(t)
	if err := r.b.Join(1); err != nil {
		t.Fatal(err)
	}
	r.expect(transport.Joined, transport.Joined)
	sender := transport.Event{Group: 0, Role: transport.RoleSender, State: transport.Joined}
	r.legs[1].post = []transport.Event{sender}
	r.expect(transport.Joined)
	sender.State = transport.Lost
	r.legs[1].post = []transport.Event{lost(0), lost(1), sender}
	r.expect(transport.LegLost, transport.Lost)
	if err := errors.Join(r.b.Leave(0), r.b.Leave(1)); err != nil {
		t.Fatal(err)
	}
	sender.State = transport.Left
	r.legs[1].post = []transport.Event{sender}
	r.expect(transport.Left, transport.Left, transport.Left)
	if r.b.Stats().Legs[1].Up {
		t.Error("a leg without groups is up again")
	}
	r.legs[1].refuse = down
	if err := r.b.Join(0); err != nil {
		t.Fatal(err)
	}
	r.expect(transport.Joined)
	r.legs[1].refuse = nil
	if err := r.b.Join(0); err != nil { // retried
		t.Fatal(err)
	}
	if r.b.Stats().Legs[1].Up {
		t.Error("a leg that tries to join is up again")
	}
	r.expect(transport.LegJoined)
	if err := r.b.Join(1); err != nil {
		t.Fatal(err)
	}
	r.expect(transport.Joined)
	r.legs[1].post = []transport.Event{lost(1)}
	r.expect(transport.LegLost)
	if err := r.b.Leave(1); err != nil {
		t.Fatal(err)
	}
	r.expect(transport.LegJoined, transport.Left)
	r.legs[1].post = []transport.Event{lost(0)}
	r.expect(transport.LegLost)
	r.legs[1].post = []transport.Event{joined(0)}
	r.expect(transport.LegJoined)
}

// A leg that accepts no packets does not become up because its sender is closed, but as soon as it accepts a packet of
// another sender.
func TestLegStaysDownWhenSenderCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.poll()
		r.legs[2].send = transport.ErrBusy
		r.sendFor(20*time.Millisecond, 1)
		r.send(1)
		r.poll()
		if r.a.Stats().Legs[0].Up {
			t.Fatal("a leg that accepts no packets is up")
		}
		if err := r.s.Close(); err != nil {
			t.Fatal(err)
		}
		r.poll()
		if r.a.Stats().Legs[0].Up {
			t.Error("the leg is up again without a sender")
		}
		s, err := r.a.NewSender(1)
		if err != nil {
			t.Fatal(err)
		}
		r.s, r.legs[2].send = s, nil
		r.send(1)
		r.poll()
		if !r.a.Stats().Legs[0].Up {
			t.Error("the leg accepted a packet, but is not up again")
		}
	})
}

// A leg on which new endpoints cannot discover this one is reported as lost, even if another reason exists, and never
// as restored, whatever happens to its groups. It still carries its groups.
func TestUndiscoverableLeg(t *testing.T) {
	unplugged := errors.New("files were removed")
	undiscoverable := transport.Event{Kind: transport.Undiscoverable, Err: unplugged}
	r := newRig(t)
	r.expect(transport.Joined)
	r.legs[1].post = []transport.Event{undiscoverable}
	r.poll()
	if len(r.reported) != 1 || r.reported[0].Kind != transport.LegLost || r.reported[0].Leg != 1 || r.reported[0].Err != unplugged {
		t.Errorf("events %+v, want the loss of leg 1 alone, with its error", r.reported)
	}
	r.reported = nil
	r.legs[1].post = []transport.Event{{State: transport.Lost}}
	r.expect()
	r.legs[1].post = []transport.Event{{State: transport.Joined}}
	r.expect()
	r.legs[0].post = []transport.Event{{State: transport.Lost}, undiscoverable}
	r.expect(transport.LegLost, transport.LegLost)
	r.legs[0].post = []transport.Event{{State: transport.Joined}}
	r.expect()
	if l := r.b.Stats().Legs; l[0].Up || l[1].Up {
		t.Errorf("legs %+v, want both down", l)
	}
	r.send(3)
	r.poll()
	if r.got != [transport.MaxLegs]int{3, 3} {
		t.Errorf("packets by leg: %v, want 3 and 3", r.got)
	}
	if err := r.b.Leave(0); err != nil {
		t.Fatal(err)
	}
	r.expect(transport.Left)
}

// A leg's report that it cannot connect to other endpoints is passed on: the leg itself still carries its groups.
func TestUnconnectedLeg(t *testing.T) {
	r := newRig(t)
	r.expect(transport.Joined)
	unmet := transport.Event{Kind: transport.Unmet, Err: errors.New("too many open files")}
	r.legs[1].post = []transport.Event{unmet}
	r.poll()
	if len(r.reported) != 1 || r.reported[0] != unmet || !r.b.Stats().Legs[1].Up {
		t.Errorf("events %+v, legs %+v, want one event, and leg 1 up", r.reported, r.b.Stats().Legs)
	}
}

// A leg that fails, is not ready or is stuck does not delay sends; a leg that is only busy does.
func TestSendWithBadLegs(t *testing.T) {
	down := errors.New("network is down")
	for _, c := range []struct {
		name   string
		errs   [2]error
		after  time.Duration // time in which the leg accepts no trains
		sent   int
		err    error
		unsent [2]uint64
	}{
		{"first is down", [2]error{down, nil}, 0, 4, nil, [2]uint64{4, 0}},
		{"second is not ready", [2]error{nil, transport.ErrNotReady}, 0, 4, nil, [2]uint64{0, 4}},
		{"both are down", [2]error{down, transport.ErrBusy}, 0, 0, transport.ErrBusy, [2]uint64{}},
		{"first is busy", [2]error{transport.ErrBusy, nil}, 0, 0, transport.ErrBusy, [2]uint64{}},
		{"second is busy, which counts from the next train on", [2]error{nil, transport.ErrBusy}, 0, 4, nil, [2]uint64{0, 4}},
		{"first is busy for long", [2]error{transport.ErrBusy, nil}, 20 * time.Millisecond, 4, nil, [2]uint64{4, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.poll()
				r.legs[2].send, r.legs[3].send = c.errs[0], c.errs[1]
				r.sendFor(c.after, 4)
				n, err := r.send(4)
				if n != c.sent || !errors.Is(err, c.err) {
					t.Errorf("%d packets sent, error %v, want %d and %v", n, err, c.sent, c.err)
				}
				for i, l := range r.a.Stats().Legs {
					if l.Unsent != c.unsent[i] {
						t.Errorf("leg %d: %d not sent, want %d", i, l.Unsent, c.unsent[i])
					}
				}
				if r.s.Completed() != uint64(c.sent) {
					t.Errorf("%d packets completed, want %d", r.s.Completed(), c.sent)
				}
				r.poll()
				if up := r.a.Stats().Legs[0].Up; up != (c.after == 0) {
					t.Errorf("first leg up: %v, want %v", up, c.after == 0)
				}
				r.legs[2].send, r.legs[3].send = nil, nil
				if n, err := r.send(2); n != 2 || err != nil {
					t.Errorf("Send: %d packets, error %v, want 2", n, err)
				}
				r.poll()
				if up := r.a.Stats().Legs[0].Up; !up {
					t.Error("first leg is not up again")
				}
			})
		})
	}
}

// A leg that is busy both before its process is stopped and after the process continues does not count as stuck.
func TestBusyAcrossAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.poll()
		r.legs[2].send = transport.ErrBusy
		for range 3 {
			if n, err := r.send(4); n != 0 || !errors.Is(err, transport.ErrBusy) {
				t.Errorf("%d packets sent, error %v, want 0 and %v", n, err, transport.ErrBusy)
			}
			time.Sleep(time.Minute)
		}
		r.poll()
		if l := r.a.Stats().Legs[0]; !l.Up || l.Unsent > 0 {
			t.Errorf("leg 0 is %+v, want it up, with nothing unsent", l)
		}
	})
}

// A leg that fails is reported, and the other continues; when all legs have failed, the transport ends.
func TestLegEnds(t *testing.T) {
	r := newRig(t)
	r.expect(transport.Joined)
	fault := errors.New("device was removed")
	r.legs[1].poll = fault
	r.expect(transport.LegLost)
	r.send(3)
	r.poll()
	if r.got != [transport.MaxLegs]int{3} {
		t.Errorf("packets by leg: %v, want 3 and 0", r.got)
	}
	r.legs[0].poll = fault
	if err := r.b.Poll(transport.NewBatch(1)); !errors.Is(err, fault) || errors.Is(err, net.ErrClosed) {
		t.Errorf("Poll: error %v, want %v", err, fault)
	}
	r.legs[0].poll, r.legs[1].poll = nil, net.ErrClosed // so that they can be closed
}

// Wait uses a goroutine for each leg but the first. All end with the transport.
func TestWaitGoroutinesEnd(t *testing.T) {
	before := runtime.NumGoroutine()
	r := newRig(t)
	for range 3 {
		r.b.Wait(time.Microsecond)
	}
	if n := runtime.NumGoroutine(); n > before+1 {
		t.Errorf("%d goroutines, %d before, want at most one more", n, before)
	}
	r.b.Close()
	for b := transport.NewBatch(1); r.b.Poll(b) == nil; {
		r.b.Wait(-1)
	}
	testenv.AwaitGoroutines(t, before)
}

// Legs that cannot be combined are rejected.
func TestBadLegs(t *testing.T) {
	open := func(groups int) transport.Transport {
		l, err := mem.Open(mem.Config{Network: mem.NewNetwork(), Groups: groups})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	if _, err := legs.New([]transport.Transport{open(4)}, []string{"A"}); err == nil {
		t.Error("a single leg was accepted")
	}
	if _, err := legs.New([]transport.Transport{open(4), open(5)}, []string{"A", "B"}); err == nil || !strings.Contains(err.Error(), "A has 4 groups and B 5") {
		t.Error(err)
	}
	if _, err := legs.New([]transport.Transport{open(5), open(4)}, []string{"A", "B"}); err == nil || !strings.Contains(err.Error(), "A has 5 groups and B 4") {
		t.Error(err)
	}
}

// bufferLeg is a leg whose groups share a receive buffer, or whose senders have separate ones.
type bufferLeg struct {
	transport.Transport
	together, apart bool
}

func (l bufferLeg) Capabilities() transport.Capabilities {
	c := l.Transport.Capabilities()
	c.GroupsTogether, c.SendersApart = l.together, l.apart
	return c
}

// The announced capacity fits the buffers of all legs: groups share a buffer if they do on any leg, and senders have
// separate ones if they do on any. docs/protocol §7.3.
func TestLegsShareReceiveBuffers(t *testing.T) {
	for i, c := range []struct{ a, b, want [2]bool }{
		{[2]bool{}, [2]bool{}, [2]bool{}},
		{[2]bool{true, true}, [2]bool{true, true}, [2]bool{true, true}},
		{[2]bool{true, true}, [2]bool{true, false}, [2]bool{true, false}},
		{[2]bool{false, false}, [2]bool{true, true}, [2]bool{true, false}},
	} {
		var all []transport.Transport
		for j, x := range [][2]bool{c.a, c.b} {
			m, err := mem.Open(mem.Config{Name: fmt.Sprint(t.Name(), i, j)})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			all = append(all, bufferLeg{m, x[0], x[1]})
		}
		l, err := legs.New(all, []string{"A", "B"})
		if err != nil {
			t.Fatal(err)
		}
		if got := l.Capabilities(); got.GroupsTogether != c.want[0] || got.SendersApart != c.want[1] {
			t.Errorf("%v and %v: groups together %v, senders apart %v, want %v", c.a, c.b, got.GroupsTogether, got.SendersApart, c.want)
		}
	}
}
