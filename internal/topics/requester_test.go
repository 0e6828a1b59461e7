package topics

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/pattern"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// requester is a publisher of requests with receivers that reply, on a network without delay in virtual time.
type requester struct {
	t          *testing.T
	s          *reliable.Sender
	m          *Sender
	w          *Writer
	q          *Requests
	now        reliable.Instant
	narrow     bool // of each train the transport accepts only the first packet
	posted     uint64
	topic      *Topic
	responders []*replier
	lose       func(p packet) bool // nil: no loss
	sent       map[wire.Type]int
	open       []*Request
	replies    []map[uint64]string // replies by receiver, for each request
	accept     func(x *CompleteReply) bool
}

// packet is a packet that was sent.
type packet struct {
	wire.Header
	b []byte
}

type replier struct {
	id       uint64
	r        *reliable.Receiver
	in       *Receiver
	q        *Replies
	patterns []pattern.Pattern
	runs     *reliable.Running
	executed map[uint64]int // executions, by number
	silent   bool           // it does not reply
	reply    func(number uint64, msg []byte) []byte
}

func newRequester(t *testing.T, receivers int, change func(*reliable.SenderConfig)) *requester {
	t.Helper()
	a := &requester{t: t, now: reliable.Instant(time.Hour), sent: make(map[wire.Type]int)}
	a.s, a.m, a.w = newSender(t, a.now, nil, change)
	a.q = &a.m.Requests
	a.q.sink = a
	var err error
	if a.topic, err = a.m.Topic("a.b"); err != nil {
		t.Fatal(err)
	}
	for i := range receivers {
		a.receive(uint64(100+i), "a.b")
	}
	a.exchange()
	return a
}

func (a *requester) Batch(uint64, uint64) {}
func (*requester) Forgotten(uint64)       {}

func (a *requester) Accept(x *CompleteReply) bool { return a.accept == nil || a.accept(x) }

// receive adds a receiver with these topics and patterns.
func (a *requester) receive(id uint64, names ...string) *replier {
	a.t.Helper()
	x := &replier{id: id, runs: new(reliable.Running), executed: make(map[uint64]int)}
	x.reply = func(number uint64, msg []byte) []byte { return fmt.Appendf(nil, "%d:%d:%d", x.id, number, len(msg)) }
	rd := NewReader(0, wire.MaxMessage)
	rd.Want(a.topic.ID, a.topic.Name, nil)
	to := sink{func(e *reliable.Event) {
		var it Item
		rd.Take(e)
		for nextOf(rd, &it) {
			a.execute(x, &it)
		}
	}, rd.TakeNote}
	x.r, x.in = openReceiver(a.t, func(*reliable.Stream) Output { return to }, func(c *reliable.ReceiverConfig) {
		c.ID, c.WindowBytes, c.MemoryBytes, c.MaxStreams = id, 32*512, 128*512, 2
	})
	x.r.SetRunning(x.runs)
	x.q = NewReplies(id, x.r.Recipient, x.runs)
	x.r.SetControl(x.q)
	for _, name := range names {
		if p, err := pattern.Parse(name); err != nil {
			a.t.Fatal(err)
		} else if p.Wild() {
			x.patterns = append(x.patterns, p)
			x.in.LearnNames(a.now, x)
		} else {
			x.in.Want(name)
		}
	}
	x.in.TopicsChanged(a.now)
	a.responders = append(a.responders, x)
	return x
}

// execute executes a request at a receiver.
func (a *requester) execute(x *replier, it *Item) {
	if it.Gap() || !it.Request {
		a.t.Errorf("message %d is not a request: %+v", it.Number, it)
		return
	}
	x.executed[it.Number]++
	if x.silent {
		return
	}
	if err := x.respond(a, it.Number, x.reply(it.Number, it.Data)); err != nil {
		a.t.Errorf("receiver %d, request %d: %v", x.id, it.Number, err)
	}
}

// respond replies to a request.
func (x *replier) respond(a *requester, number uint64, data []byte) error {
	return x.q.Respond(a.now, events.Instance{Publisher: 7, Epoch: 3}, a.topic.ID, number, data, false)
}

func (x *replier) Named(*reliable.Stream, uint64, string, uint64, bool)  {}
func (x *replier) Forgotten(*reliable.Stream, uint64)                    {}
func (x *replier) Untrusted(*reliable.Stream, uint64, string, int, bool) {}
func (x *replier) Wants(id uint64) bool {
	name, _ := x.in.Name(id)
	return slices.ContainsFunc(x.patterns, func(p pattern.Pattern) bool { return p.Match(name) })
}

// packets returns all that the publisher sends now.
func (a *requester) packets() (all []packet) {
	a.t.Helper()
	var tr transport.Outbound
	for a.s.Next(a.now, &tr) {
		n := tr.Count
		if a.narrow {
			n = 1
		}
		for i := range n {
			p := bytes.Clone(tr.Data[i*tr.Stride:][:tr.Lens[i]])
			h, err := wire.ParseHeader(p)
			if err != nil {
				a.t.Fatal(err)
			}
			all = append(all, packet{h, p})
		}
		a.posted += uint64(n)
		a.s.Sent(a.now, n, a.posted)
	}
	return all
}

func (a *requester) lost(p packet) bool {
	a.sent[p.Type]++
	return a.lose != nil && a.lose(p)
}

// exchange delivers packets in both directions until none is left.
func (a *requester) exchange() {
	for again := true; again; {
		again = false
		for _, p := range a.packets() {
			for _, x := range a.responders {
				if !a.lost(p) {
					x.r.Handle(a.now, 5, p.b)
				}
			}
			again = true
		}
		for _, x := range a.responders {
			for _, p := range controlOf(x.r, a.now) {
				if !a.lost(p) {
					a.s.Handle(a.now, p.b, nil)
				}
				again = true
			}
		}
	}
	for i, r := range a.open {
		for {
			x, ok := r.Take()
			if !ok {
				break
			}
			if _, twice := a.replies[i][x.Receiver]; twice {
				a.t.Errorf("request %d: a second reply of %d", i, x.Receiver)
			}
			a.replies[i][x.Receiver] = string(x.Data)
		}
	}
}

// run lets time pass.
func (a *requester) run(d time.Duration) {
	for end := a.now.Add(d); a.now < end; a.exchange() {
		next := a.s.Deadline()
		for _, x := range a.responders {
			next = min(next, x.r.Deadline())
		}
		a.now = min(end, max(next, a.now.Add(10*time.Microsecond)))
	}
}

// ask publishes a request of n bytes.
func (a *requester) ask(n int) *Request {
	a.t.Helper()
	r := &Request{Ready: func() {}}
	a.open, a.replies = append(a.open, r), append(a.replies, make(map[uint64]string))
	msg := make([]byte, n)
	for at, tries := 0, 0; ; tries++ {
		switch {
		case n <= a.m.MaxInPacket() && a.q.Write(a.w, a.topic, msg, r):
			at = n + 1
		case n > a.m.MaxInPacket():
			at = max(a.q.WriteFragment(a.w, a.topic, msg, at, r), at)
		}
		if at >= n && (at > n || n > a.m.MaxInPacket()) {
			break
		}
		if tries > 100 {
			a.t.Fatalf("no room for a request of %d bytes: %v", n, a.s.Blocked())
		}
		a.m.Assign(a.now, a.w, false)
		a.s.Grant(a.w.Packets)
		a.run(time.Millisecond)
	}
	a.m.Assign(a.now, a.w, true)
	a.s.Grant(a.w.Packets)
	return r
}

// answered checks that each receiver executed each request once, and that its reply arrived.
func (a *requester) answered() {
	a.t.Helper()
	for i := range a.open {
		for _, x := range a.responders {
			if x.executed[uint64(i)] != 1 {
				a.t.Errorf("request %d was executed %d times by %d", i, x.executed[uint64(i)], x.id)
			}
			if _, ok := a.replies[i][x.id]; !ok {
				a.t.Errorf("request %d has no reply of %d", i, x.id)
			}
		}
	}
}

func (a *requester) header() wire.Header { return wire.Header{GroupTag: 9, Publisher: 7, Epoch: 3} }
