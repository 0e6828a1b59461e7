package reliable

import (
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Plausibility checks of received packets. docs/protocol §13, §19.
//
// Packets are not authenticated. Any packet may be damaged (where the fabric does not check), late, duplicated,
// replayed after any time, or forged by an attacker that can reach the group and has read the identity of a stream
// there. Only authentication stops an attacker that forges many packets. But one forged or replayed packet must not be
// able to
//
//  - make a receiver give up packets that it could still get, by naming a sequence far ahead: sequenceGuard,
//  - make all true heartbeats look old, or a lost publisher look alive: clockGuard,
//  - readmit a receiver that has left, or hold a publisher up: statusOrder.
//
// Each guard is a value with the states of its diagram; none keeps a clock. Refused packets are counted as Implausible
// or StatusesStale, or reported as a fault of the publisher.
//
// Callers of the guards: recv_liveness.go (heartbeats), recv_loss.go (data) and send_members.go
// (statuses; mayJoin also knows the receivers that have left). In addition, numbers.go in internal/topics
// checks message numbers, reports.go in internal/discovery waits for a second packet where the first may be damaged,
// and limits.go bounds the intervals that packets state.

// sequenceGuard checks sequences beyond those that a receiver knows of.
//
//	┌──────┐  a packet names a sequence far ahead  ┌──────────┐
//	│ sure │ ────────────────────────────────────► │ suspects │ ──┐ another packet names
//	│      │ ◄──────────────────────────────────── │          │ ◄─┘ one that is not near
//	└──────┘  another packet names one near it     └──────────┘
type sequenceGuard struct {
	suspects bool
	seq      uint64 // the sequence far ahead
	sentAt   uint64 // SentAt of the heartbeat that named it; 0: data
}

const (
	// jumpPackets is how far beyond all known sequences a packet of a stream that is not down may be. A larger jump is
	// damage or forgery: at 10^7 packets a second it means 100 s of silence.
	jumpPackets = 1 << 30
	// nearPackets is how close the leads of two heartbeats must be to confirm each other: 0.1 s at 10^7 packets a second.
	nearPackets = 1 << 20
)

// impossible reports whether seq is too far beyond high to be plausible, even if confirmed (docs/protocol §9.4). A
// stream that is down has no limit: its publisher may have continued for any time. A receiver of a running stream
// cannot have missed that many packets.
func (g *sequenceGuard) impossible(seq, high uint64, down bool) bool {
	return !down && seq > high && seq-high > jumpPackets
}

// confirmed reports whether a packet that names seq, far ahead, confirms an earlier one that named a sequence at most
// near away (docs/protocol §9.4). sentAt is the SentAt of a heartbeat, zero for data. A copy of the first packet does
// not confirm it.
func (g *sequenceGuard) confirmed(seq, sentAt, near uint64) bool {
	again := seq == g.seq && sentAt == g.sentAt
	if !g.suspects || again || seq+near < g.seq || seq > g.seq+near {
		*g = sequenceGuard{suspects: true, seq: seq, sentAt: sentAt}
		return false
	}
	*g = sequenceGuard{}
	return true
}

// clockGuard checks the SentAt of heartbeats, which is in their publisher's clock.
//
//	┌──────┐        a heartbeat ahead of the time passed       ┌──────────┐
//	│ sure │ ────────────────────────────────────────────────► │ suspects │
//	│      │ ◄──────────────────────────────────────────────── │          │
//	└──────┘    one soon after it, or one that is not ahead    └──────────┘
type clockGuard struct {
	newest uint64  // SentAt of the newest heartbeat; 0: none arrived
	at     Instant // when it arrived
	ahead  uint64  // SentAt of the suspected heartbeat; 0: none
}

// maxLeap is how far one heartbeat may be ahead of the publisher's time: less than lostFloor, so that a forged one
// cannot make a publisher seem lost.
const maxLeap = quietHeartbeat + quietHeartbeat/2

// fresh reports whether a heartbeat with this SentAt is newer than all before it, so neither overtaken nor replayed. A
// single heartbeat further ahead than the time passed here may be forged, and would make all true ones old
// (docs/protocol §5.9).
func (g *clockGuard) fresh(now Instant, sentAt uint64) bool {
	if sentAt <= g.newest {
		return false
	}
	if passed := uint64(now.Sub(g.at) + maxLeap); g.newest == 0 || sentAt-g.newest <= passed {
		return true
	}
	if g.ahead != 0 && sentAt > g.ahead && sentAt-g.ahead <= uint64(lostHeartbeats*maxHeartbeat) {
		return true
	}
	g.ahead = sentAt
	return false
}

// heard records a fresh heartbeat. A copy of the newest one changes nothing.
func (g *clockGuard) heard(now Instant, sentAt uint64) {
	if sentAt > g.newest {
		*g = clockGuard{newest: sentAt, at: now}
	}
}

// statusOrder orders the statuses of one receiver. Statuses may overtake each other or be replayed: a stale status may
// only advance monotonic fields. docs/protocol §7.5.
type statusOrder struct {
	next  uint64
	echo  uint64        // SentAt of the newest heartbeat that the receiver got
	delay time.Duration // time from that heartbeat to the status
}

func orderOf(st *wire.Status) statusOrder { return statusOrder{st.Next, st.Echo, st.EchoDelay} }

// before reports whether a was certainly sent before b.
func (a statusOrder) before(b statusOrder) bool {
	return a.next < b.next || a.echo < b.echo || a.echo == b.echo && a.delay < b.delay
}

// supersedes reports whether a was sent after b, or may have been.
func (a statusOrder) supersedes(b statusOrder) bool { return !a.before(b) && a != b }

// fromFuture reports whether a echoes a heartbeat not sent yet. A caller's now may be slightly old.
func (a statusOrder) fromFuture(now Instant) bool { return a.echo > uint64(now.Add(activeHeartbeat)) }

const (
	// staleStatus is the maximum age of a status that admits a member: the echoed heartbeat may have been unread that
	// long, behind a slow handler or in a suspended process. NAKs, and statuses that repeat the last one, may be replays:
	// they count as signs of life only within repeatedLife after a new status.
	staleStatus  = mostExtension
	repeatedLife = mostExtension
)

// stale reports whether a status is too old to admit a member. since is the time since the echoed heartbeat was sent.
// Without an echo the age is unknown.
func (a statusOrder) stale(since time.Duration) bool {
	return a.echo != 0 && since-a.delay > staleStatus
}

// tombstones remember removed entries, so that late and replayed packets do not bring them back: at a receiver, streams
// that ended or were evicted; at a publisher, members that left. They keep the latest, and only a share of entries that
// belong together, so that an entry which comes and goes repeatedly does not displace others. docs/protocol §8.5,
// §12.1.
type tombstones[K comparable, V any] struct {
	kept     int               // maximum number
	share    int               // maximum number of entries that belong together
	together func(a, b K) bool // nil: no entries do
	of       map[K]V
	order    []K // the oldest first
}

// remember stores the last known value of key.
func (t *tombstones[K, V]) remember(key K, x V) {
	if t.of == nil {
		t.of = make(map[K]V)
	}
	if _, ok := t.of[key]; !ok {
		t.makeRoom(key)
		t.order = append(t.order, key)
	}
	t.of[key] = x
}

// makeRoom forgets the oldest entry that belongs with key, if these have reached their share, or else the oldest of all
// if kept is reached.
func (t *tombstones[K, V]) makeRoom(key K) {
	first, n := 0, 0
	if t.together != nil {
		for i, k := range t.order {
			if t.together(k, key) {
				if n++; n == 1 {
					first = i
				}
			}
		}
	}
	if t.together == nil || n < t.share {
		if len(t.order) < t.kept {
			return
		}
		first = 0
	}
	delete(t.of, t.order[first])
	t.order = append(t.order[:first], t.order[first+1:]...)
}

// drop forgets all entries for which gone reports true.
func (t *tombstones[K, V]) drop(gone func(V) bool) {
	t.order = slices.DeleteFunc(t.order, func(key K) bool {
		if !gone(t.of[key]) {
			return false
		}
		delete(t.of, key)
		return true
	})
}

// find returns the value remembered for key.
func (t *tombstones[K, V]) find(key K) (x V, ok bool) {
	x, ok = t.of[key]
	return x, ok
}

// formerStream is what a receiver remembers of a removed stream.
type formerStream struct {
	evicted bool   // it continues where it stopped, if its publisher returns
	next    uint64 // next sequence of an evicted stream
}

// formerStreams remembers the removed streams of a group. Each publisher id has a share, however often it restarts.
func formerStreams() tombstones[events.Instance, formerStream] {
	return tombstones[events.Instance, formerStream]{
		kept: tombstonesKept, share: tombstonesEach,
		together: func(a, b events.Instance) bool { return a.Publisher == b.Publisher },
	}
}

// formerMembers remembers the receivers that left a stream or were removed as silent, with the order of their last
// statuses.
func formerMembers() tombstones[uint64, statusOrder] {
	return tombstones[uint64, statusOrder]{kept: farewellsKept}
}
