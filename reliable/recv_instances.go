package reliable

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// A bus that publishes is one instance of its publisher id, with an epoch of its own. An id made from a configured name
// may have several instances, one after the other (a restart) or at the same time (a rolling update, or a name used
// twice). Their streams are independent: no instance ends, closes or delays another's stream. docs/protocol §3.5, §3.7.

// instances holds the streams of one group, and relates those with the same publisher id.
type instances struct {
	streams map[events.Instance]*Stream
	of      map[events.ID][]*Stream // by publisher id
}

func newInstances() instances {
	return instances{streams: make(map[events.Instance]*Stream), of: make(map[events.ID][]*Stream)}
}

func (x *instances) add(st *Stream) {
	x.streams[st.Instance] = st
	x.of[st.Publisher] = append(x.of[st.Publisher], st)
}

func (x *instances) remove(st *Stream) {
	if x.streams[st.Instance] != st {
		return
	}
	delete(x.streams, st.Instance)
	list := x.of[st.Publisher]
	for i, o := range list {
		if o == st {
			list = append(list[:i], list[i+1:]...)
			break
		}
	}
	if x.of[st.Publisher] = list; len(list) == 0 {
		delete(x.of, st.Publisher)
	}
}

// silence is the cause reported for an instance that fell silent: CauseRestart if another instance of its publisher id
// was received since, otherwise CausePublisherLost. docs/protocol §11.3.
func (x *instances) silence(st *Stream) events.Cause {
	for _, o := range x.of[st.Publisher] {
		if o != st && o.life.heard > st.life.heard {
			return events.CauseRestart
		}
	}
	return events.CausePublisherLost
}

// superseded reports whether an instance is lost while another one of its publisher id is up: it was probably
// restarted.
func (x *instances) superseded(st *Stream) bool {
	if !st.life.down || st.life.finished || st.life.gone() {
		return false
	}
	for _, o := range x.of[st.Publisher] {
		if !o.life.down {
			return true
		}
	}
	return false
}

// expired reports whether a superseded instance has been down long enough to be removed. If it returns, its stream
// continues where it stopped.
func (x *instances) expired(st *Stream, now upTime) bool {
	return st.life.down && now > st.life.removeAt() && x.superseded(st)
}

// removeAt is when an instance that is down is removed if it is superseded.
func (x *liveness) removeAt() upTime { return x.downAt.add(supersededKeep) }

// full reports whether a publisher id has its maximum of streams: half of all, so that a name used by very many buses,
// or by a forger, does not keep other publishers out. docs/protocol §12.1.
func (x *instances) full(publisher events.ID, limit int) bool {
	return len(x.of[publisher]) >= max(2, limit/2)
}

// duplicate returns another instance of st's publisher id that has been up at the same time as st for overlapTime, or
// nil: both were received that long after the later one came up. A restart or a rolling update overlaps for less. Each
// instance is found once, and again only beside an instance not found before.
func (x *instances) duplicate(st *Stream) *Stream {
	for _, o := range x.of[st.Publisher] {
		if o == st || st.duplicates.other && o.duplicates.other || !st.lives() || !o.lives() {
			continue
		}
		if min(st.life.heard, o.life.heard).sub(max(st.life.upAt, o.life.upAt)) >= overlapTime {
			return o
		}
	}
	return nil
}

// reportedDuplicates records which other instances of a stream's publisher id were reported.
type reportedDuplicates struct {
	other bool // another stream
	own   bool // this bus
}

// lives reports whether an instance is neither lost nor has announced its end.
func (st *Stream) lives() bool { return !st.life.down && !st.life.ended }

const (
	// supersededKeep is how long the stream of a lost instance is kept while another instance of its publisher id is up. A
	// service that restarts every second must fill neither the list of streams nor the window memory.
	supersededKeep = 5 * time.Second
	// overlapTime is how long two instances of a publisher id may run at the same time before that is reported. A rolling
	// update, which starts the new instance before it stops the old one, takes less.
	overlapTime = 5 * time.Second
)

// reportDuplicate reports, once, another instance of st's publisher id that runs at the same time, or this bus itself.
func (st *Stream) reportDuplicate() {
	if o := st.r.instances.duplicate(st); o != nil {
		st.duplicates.other, o.duplicates.other = true, true
		if o.life.upAt > st.life.upAt {
			st, o = o, st
		}
		st.r.sink.DuplicateName(st, o)
	}
	if st.Publisher == st.r.cfg.Own.Publisher && !st.r.cfg.Loopback && !st.duplicates.own && st.lives() &&
		st.life.heard.sub(st.life.upAt) >= overlapTime {
		st.duplicates.own = true
		st.r.sink.DuplicateName(st, nil)
	}
}

// Origin identifies the publisher instance from which an event comes. It is immutable: newer information makes a new
// Origin.
type Origin struct {
	events.Instance
	// Name is the publisher's name, fit to be shown (wire.CleanName); empty if unknown or if it has none.
	Name string
	// Address is the text of its last source address, as the fabric writes it; it may be empty.
	Address string
	// State is set in copies that accompany state: a message has no field for it.
	State StatePart

	// Asked is what a reply to the request needs, set by the reader that delivers the message; nil in a Stream's Origin.
	Asked any

	raw string // the name as received
}

// StatePart says how an Item relates to state.
type StatePart uint8

const (
	// StateOfNone: a message or a gap.
	StateOfNone StatePart = iota
	// StateRecord: a part of the topic's state. Number is that of the first message that the state does not include.
	StateRecord
	// StateEnd: the topic's state is complete. Message Number follows.
	StateEnd
	// StateMissing: the topic has no state, because of Why. Messages published from now on follow.
	StateMissing
)

// Origin returns what is known of the stream's publisher. Any goroutine may call it.
func (st *Stream) Origin() *Origin { return st.origin.Load() }

// named takes over the name from a heartbeat.
func (st *Stream) named(name []byte) {
	o := st.origin.Load()
	if o.raw == string(name) {
		return
	}
	o = &Origin{Instance: o.Instance, Name: wire.CleanName(name), Address: o.Address, raw: string(name)}
	st.origin.Store(o)
}

// moved records the publisher's new address.
func (st *Stream) moved(address string) {
	o := *st.origin.Load()
	o.Address = address
	st.origin.Store(&o)
}
