package reliable

import (
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// A bus that publishes is one instance of its publisher id: it has an epoch of its own. Where the id is made from a
// configured name there may be several, one after the other (a restart) or at the same time (a rolling update, or a
// name given twice). Their streams are independent: nothing about one ends, closes or delays another. docs/protocol
// §3.5, §3.7.

// Instance is one run of a publisher: its id, and the epoch of the run. Within a group it names a stream.
type Instance struct{ Publisher, Epoch uint64 }

// instances are the streams of one group, and what those of one publisher id mean for each other.
type instances struct {
	streams map[Instance]*Stream
	of      map[uint64][]*Stream // by publisher id
}

func newInstances() instances {
	return instances{streams: make(map[Instance]*Stream), of: make(map[uint64][]*Stream)}
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

// Up reports whether an instance of a publisher is heard.
func (r *Receiver) Up(of Instance) bool {
	st := r.instances.streams[of]
	return st != nil && !st.life.down
}

// silence is why an instance that fell silent is down: CauseRestart if another one of
// its publisher id was heard since, and CausePublisherLost otherwise. docs/protocol §11.3.
func (x *instances) silence(st *Stream) events.Cause {
	for _, o := range x.of[st.Publisher] {
		if o != st && o.life.heard > st.life.heard {
			return events.CauseRestart
		}
	}
	return events.CausePublisherLost
}

// superseded reports whether an instance is lost while another one of its publisher id
// lives: most likely it was restarted.
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

// expired reports whether a superseded instance has been down long enough to be removed.
// If it is heard again it goes on where it stood.
func (x *instances) expired(st *Stream, now upTime) bool {
	return st.life.down && now > st.life.removeAt() && x.superseded(st)
}

// removeAt is until when an instance that is down is kept once it is superseded.
func (x *liveness) removeAt() upTime { return x.downAt.add(supersededKeep) }

// full reports whether a publisher id has as many streams as it may: half of all, so that a name given to very many
// buses, or known to a forger, does not keep other publishers out. docs/protocol §12.1.
func (x *instances) full(publisher uint64, most int) bool {
	return len(x.of[publisher]) >= max(2, most/2)
}

// duplicate returns another instance of st's publisher id that has lived side by side with st for overlapTime, or nil:
// both were heard that long after the later one of them came up. A restart and a rolling update overlap for less. Each
// instance is found once, and again beside one that was not.
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

// reportedDuplicates says which other instances of a stream's publisher id were reported.
type reportedDuplicates struct {
	other bool // another stream
	own   bool // this bus
}

// lives reports whether an instance neither is lost nor has said that it ends.
func (st *Stream) lives() bool { return !st.life.down && !st.life.ended }

const (
	// supersededKeep is how long the stream of a lost instance is kept while another one of its publisher id lives: a
	// service that restarts every second shall not fill the list of streams, nor hold their windows.
	supersededKeep = 5 * time.Second
	// overlapTime is how long two instances of a publisher id may run at the same time before that is reported: a
	// rolling update, which starts the new one before it stops the old one, is over by then.
	overlapTime = 5 * time.Second
)

// reportDuplicate reports once that another instance of the publisher id of st, or this bus itself, publishes at the
// same time.
func (st *Stream) reportDuplicate() {
	if o := st.r.instances.duplicate(st); o != nil {
		st.duplicates.other, o.duplicates.other = true, true
		if o.life.upAt > st.life.upAt {
			st, o = o, st
		}
		st.r.sink.DuplicateName(st, o)
	}
	if st.Publisher == st.r.cfg.Own && !st.r.cfg.Loopback && !st.duplicates.own && st.lives() &&
		st.life.heard.sub(st.life.upAt) >= overlapTime {
		st.duplicates.own = true
		st.r.sink.DuplicateName(st, nil)
	}
}
