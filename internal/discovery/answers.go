package discovery

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// answers decides which hellos are answered (docs/protocol §14.5). Answers to forged hellos are bounded, too: at most
// one each, at a bounded rate, with bounded memory.
type answers struct {
	buses  []answered
	budget allowance
}

// answered is a bus that was answered, or will be.
type answered struct {
	of        events.Instance
	peer      uint32 // a retained peer
	tag       uint32 // tag of the hello
	last, due reliable.Instant
	count     int  // answers so far
	pending   bool // the next answer must be sent
}

const (
	// answersKept is the number of buses that are answered. answersAtOnce is the maximum burst of answers, after which one
	// is sent every answersEvery.
	answersKept   = 32
	answersAtOnce = 16
	answersEvery  = time.Second / 16
	// answerEvery is the shortest interval of answers to one bus, answerRarely the longest. The first answersQuick are
	// sent at the shortest interval.
	answerEvery  = time.Second
	answerRarely = time.Minute
	answersQuick = 3
)

// ask handles a hello that requests an answer. waits: its bus waits for subscribers.
func (a *answers) ask(now reliable.Instant, h *wire.Header, from uint64, waits bool, peers reliable.Peers) {
	b := a.bus(h.Instance())
	if b != nil && (b.pending || now < b.last.Add(answerEvery) || now < b.due && !waits) {
		return
	}
	if !a.budget.take(now, answersAtOnce, answersEvery) {
		return
	}
	peer, ok := peers.Retain(from)
	if !ok {
		return
	}
	if b != nil {
		peers.Forget(b.peer)
	} else {
		b = a.add(h.Instance(), peers)
	}
	wait := answerEvery
	if b.count++; b.count > answersQuick {
		wait = min(answerEvery<<min(b.count-answersQuick, 10), answerRarely)
	}
	b.peer, b.tag, b.last, b.due, b.pending = peer, h.GroupTag, now, now.Add(wait), true
}

func (a *answers) bus(of events.Instance) *answered {
	for i := range a.buses {
		if b := &a.buses[i]; b.of == of {
			return b
		}
	}
	return nil
}

// add adds a bus. If there is no room, it replaces the one that was answered longest ago.
func (a *answers) add(of events.Instance, peers reliable.Peers) *answered {
	if len(a.buses) < answersKept {
		a.buses = append(a.buses, answered{of: of})
		return &a.buses[len(a.buses)-1]
	}
	b := &a.buses[0]
	for i := range a.buses {
		if a.buses[i].last < b.last {
			b = &a.buses[i]
		}
	}
	peers.Forget(b.peer)
	*b = answered{of: of}
	return b
}

// next returns a bus that must be answered now, or nil.
func (a *answers) next() *answered {
	for i := range a.buses {
		if b := &a.buses[i]; b.pending {
			b.pending = false
			return b
		}
	}
	return nil
}

// expire removes buses that have been silent for long.
func (a *answers) expire(now reliable.Instant, peers reliable.Peers) {
	kept := a.buses[:0]
	for _, b := range a.buses {
		if now.Sub(b.last) > 2*answerRarely {
			peers.Forget(b.peer)
			continue
		}
		kept = append(kept, b)
	}
	a.buses = kept
}

// deadline returns the time of the next expiry.
func (a *answers) deadline() reliable.Instant {
	d := reliable.Never
	for i := range a.buses {
		d = min(d, a.buses[i].last.Add(2*answerRarely+1))
	}
	return d
}

// release releases all peers.
func (a *answers) release(peers reliable.Peers) {
	for _, b := range a.buses {
		peers.Forget(b.peer)
	}
	a.buses = nil
}
