package reliable

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/transport"
)

// scriptLatency is the latency of each packet.
const scriptLatency = 10 * time.Microsecond

// exchange is the state of a script: hosts, network and time.
type exchange struct {
	t           *testing.T
	out         *strings.Builder
	last        event   // not written yet
	now         Instant // one second at the beginning of the script
	publishers  []*scriptPublisher
	subscribers []*scriptSubscriber
	network     []flying // by time of arrival
	losses      []loss
	texts       int
}

// flying is a packet in the network.
type flying struct {
	at     Instant
	packet []byte
	to     func(packet []byte)
}

// loss is packets that the network will lose.
type loss struct {
	to, kind string
	count    int
}

type scriptPublisher struct {
	x       *exchange
	name    string
	index   uint64
	epoch   events.ID
	s       *Sender
	w       *Writer
	topic   *Topic
	backlog []string // not written yet
	posted  uint64
	why     events.Reason // printed reason for waiting
	ending  bool
	dead    bool
}

type scriptSubscriber struct {
	log  // for events that scripts do not print
	x    *exchange
	name string
	r    *Receiver
	left bool
}

// event is a line of the script's output. Further events at the same time with the same head and
// tail are added to the line.
type event struct {
	at          Instant
	head        string
	first, last uint64 // packets
	numbered    bool
	texts       []string
	tail        string
}

func (x *exchange) print(format string, a ...any) { x.add(event{head: fmt.Sprintf(format, a...)}) }

func (x *exchange) add(e event) {
	e.at = x.now
	if l := &x.last; e.texts != nil && l.texts != nil && l.at == e.at && l.head == e.head && l.tail == e.tail && (!e.numbered || l.last+1 == e.first) {
		l.last = e.last
		l.texts = append(l.texts, e.texts...)
		return
	}
	x.flush()
	x.last = e
}

// flush writes the last event.
func (x *exchange) flush() {
	e := x.last
	if x.last = (event{}); e.head == "" {
		return
	}
	fmt.Fprintf(x.out, "%8v  %s", e.at.Sub(Instant(time.Second)).Round(time.Microsecond), e.head)
	if e.numbered {
		fmt.Fprintf(x.out, " %s:", interval(e.first, e.last-e.first+1))
	}
	if e.texts != nil {
		fmt.Fprintf(x.out, " %s", strings.Join(e.texts, " "))
	}
	fmt.Fprintf(x.out, "%s\n", e.tail)
}

func (x *exchange) begin() {
	if x.now == 0 {
		x.now = Instant(time.Second) // zero means never
	}
}

func (x *exchange) subscribe(name string, window int) {
	x.begin()
	s := &scriptSubscriber{x: x, name: name}
	seed := uint64(len(x.subscribers) + 1)
	r, err := NewReceiver(receiverConfig(ReceiverConfig{
		ID: seed, GroupTag: 9, WindowBytes: window * 512, MemoryBytes: 64 * window * 512, MaxStreams: 2,
		Memory: &heap{}, Rand: rand.New(rand.NewPCG(seed, 1)),
	}), s, s)
	if err != nil {
		x.t.Fatal(err)
	}
	s.r = r
	r.SetWanted(true)
	x.subscribers = append(x.subscribers, s)
}

func (x *exchange) publisher(name string, window int, flow string) {
	x.begin()
	p := &scriptPublisher{x: x, name: name, index: uint64(len(x.publishers)), epoch: 1}
	for _, old := range x.publishers {
		if old.name == name {
			p.epoch = old.epoch + 1
		}
	}
	if p.epoch > 1 {
		p.name = fmt.Sprintf("%s.%d", name, p.epoch)
	}
	cfg := senderConfig(SenderConfig{Publisher: 7, Epoch: p.epoch, GroupTag: 9, PacketSize: 512, WindowPackets: window})
	if flow == "none" {
		cfg.Flow = NoFlow{}
	}
	s, err := NewSender(cfg, make([]byte, cfg.BlockBytes()*cfg.Blocks()), x.now)
	if err != nil {
		x.t.Fatal(err)
	}
	p.s, p.w, p.topic = s, s.NewWriter(), newTopic("a.b")
	x.publishers = append(x.publishers, p)
}

// run lets time pass from event to event.
func (x *exchange) run(until Instant) {
	for range 100_000 {
		next := Never
		if len(x.network) > 0 {
			next = x.network[0].at
		}
		for _, p := range x.publishers {
			if !p.dead {
				next = min(next, p.s.Deadline())
			}
		}
		for _, s := range x.subscribers {
			next = min(next, s.r.Deadline())
		}
		if next > until {
			x.now = until
			return
		}
		x.now = max(x.now, next)
		for len(x.network) > 0 && x.network[0].at <= x.now {
			f := x.network[0]
			x.network = x.network[1:]
			f.to(f.packet)
		}
		x.pump()
	}
	x.t.Fatalf("at %v: time does not advance", x.now)
}

// pump performs the due actions of all hosts.
func (x *exchange) pump() {
	var buf []byte
	for _, s := range x.subscribers {
		s.r.Tick(x.now)
		for {
			peer, b, ok := s.r.Next(x.now, buf[:0])
			if !ok {
				break
			}
			x.unicast(s, x.publishers[peer], slices.Clone(b))
		}
	}
	for _, p := range x.publishers {
		if !p.dead {
			p.pump()
		}
	}
}

// pump writes messages as far as possible, and sends.
func (p *scriptPublisher) pump() {
	why := p.write()
	var train transport.Outbound
	for p.s.Next(p.x.now, &train) {
		for i := range train.Count {
			p.x.multicast(p, slices.Clone(train.Data[i*train.Stride:][:train.Lens[i]]))
		}
		p.posted += uint64(train.Count)
		p.s.Sent(p.x.now, train.Count, p.posted)
		why = p.write()
	}
	if why != p.why && why != events.ReasonNone {
		p.x.print("%s waits: %v", p.name, why)
	}
	p.why = why
	if p.ending && p.s.Drained() {
		p.dead = true
		p.x.print("%s has exited: all have everything", p.name)
	}
}

// write makes a packet of each message, as far as there is room, and returns the reason why others must wait.
func (p *scriptPublisher) write() events.Reason {
	for {
		if why := p.s.Assign(p.x.now, p.w, true); why != events.ReasonNone {
			return why
		}
		if len(p.backlog) == 0 {
			return events.ReasonNone
		}
		if p.w.Full() && !p.s.Grant(p.w.Packets) || !p.w.Append(p.topic, []byte(p.backlog[0])) {
			return events.ReasonMemory
		}
		p.backlog = p.backlog[1:]
	}
}

func (x *exchange) multicast(p *scriptPublisher, b []byte) {
	kind, e := describe(x.t, b)
	var lost []string
	for _, s := range x.subscribers {
		if x.isLost(s.name, kind) {
			lost = append(lost, s.name)
			continue
		}
		x.send(b, func(b []byte) {
			if !s.left {
				s.r.Handle(x.now, p.index, b)
			}
		})
	}
	if len(lost) > 0 {
		e.tail = ", lost on the path to " + strings.Join(lost, " and ")
	}
	e.head = p.name + " to all: " + e.head
	x.add(e)
}

func (x *exchange) unicast(s *scriptSubscriber, p *scriptPublisher, b []byte) {
	kind, e := describe(x.t, b)
	switch {
	case x.isLost(p.name, kind):
		e.tail = ", lost"
	case p.dead:
		e.tail = ", which has exited"
	default:
		x.send(b, func(b []byte) {
			if !p.dead {
				p.s.Handle(x.now, b, nil)
			}
		})
	}
	e.head = s.name + " to " + p.name + ": " + e.head
	x.add(e)
}

func (x *exchange) send(b []byte, to func([]byte)) {
	x.network = append(x.network, flying{x.now.Add(scriptLatency), b, to})
}

func (x *exchange) isLost(to, kind string) bool {
	for i := range x.losses {
		if l := &x.losses[i]; l.count > 0 && l.to == to && (l.kind == kind || l.kind == "any") {
			l.count--
			return true
		}
	}
	return false
}
