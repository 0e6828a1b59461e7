package reliable

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// Which packets from the wire are plausible. docs/protocol §13, §19.
//
// Packets are not authenticated. Any of them may be damaged (where the fabric does not check), late, duplicated,
// replayed for any length of time, or forged by an attacker that reaches the group and has read the identity of a
// stream there. Only authentication helps against an attacker that forges many packets. But a single packet, or one
// that is replayed, must not be able to
//
//   - make a receiver give up packets that it could still get, by naming a sequence far ahead: sequenceGuard,
//   - make all true heartbeats look old, or a lost publisher look alive: clockGuard,
//   - admit a subscriber that has left, or hold a publisher up: statusOrder.
//
// Each guard is a value with the few states drawn at it; none keeps a clock. Packets beyond a guard are counted, as
// Implausible or StatusesStale, or reported as a fault of the publisher.
//
// The guards are asked in recv_liveness.go (heartbeats), recv_missing.go (data), recv_totals.go
// (announces) and send_members.go (statuses), where the members that have left are known, too
// (mayJoin). Beside them, guard.go in internal/topics judges message numbers, reports.go in internal/discovery waits
// for a second packet where damage may have made the first, and limits.go bounds the intervals that packets state.

// sequenceGuard judges sequences beyond those that a receiver knows of.
//
//	┌──────┐  a packet names a sequence far ahead  ┌──────────┐
//	│ sure │ ────────────────────────────────────► │ suspects │ ──┐ another one that
//	│      │ ◄──────────────────────────────────── │          │ ◄─┘ is not near it
//	└──────┘  another packet names one near it     └──────────┘
type sequenceGuard struct {
	suspects bool
	seq      uint64 // the sequence far ahead that was named
	sentAt   uint64 // its SentAt, of a heartbeat
}

const (
	// jumpPackets bounds how far ahead of everything known a sequence may be plausible while a stream is not down: beyond
	// it lies damage or forgery. At 10^7 packets a second it is 100 s of silence.
	jumpPackets = 1 << 30
	// nearPackets is how far the leads of two heartbeats may be apart for one to confirm
	// the other: 0.1 s at 10^7 packets a second.
	nearPackets = 1 << 20
	// assignedPackets bounds how far beyond everything known a publisher may have assigned
	// sequences, which announces count: a window of 1 GiB in the smallest packets.
	assignedPackets = 1 << 21
)

// impossible reports whether seq is too far beyond high to be plausible, even if confirmed (docs/protocol §9.4).
// For a stream that is down nothing is: its publisher may have continued for any length of time. A receiver of a
// running stream cannot have missed so much.
func (g *sequenceGuard) impossible(seq, high uint64, down bool) bool {
	return !down && seq > high && seq-high > jumpPackets
}

// confirmed reports whether a packet that names seq, far ahead, confirms an earlier one that named a sequence at most
// near from there (docs/protocol §9.4). sentAt is the time of a heartbeat, zero for data: the same packet again
// confirms nothing.
func (g *sequenceGuard) confirmed(seq, sentAt, near uint64) bool {
	again := seq == g.seq && sentAt == g.sentAt
	if !g.suspects || again || seq+near < g.seq || seq > g.seq+near {
		*g = sequenceGuard{suspects: true, seq: seq, sentAt: sentAt}
		return false
	}
	*g = sequenceGuard{}
	return true
}

// assigned reports whether a publisher may have assigned all sequences below asOf, if packets below high are known
// (docs/protocol §9.3).
func (g *sequenceGuard) assigned(asOf, high uint64) bool {
	return asOf <= high || asOf-high <= assignedPackets
}

// clockGuard judges when heartbeats were sent, by their publisher's clock.
//
//	┌──────┐   one that is ahead of the time that has passed   ┌──────────┐
//	│ sure │ ────────────────────────────────────────────────► │ suspects │
//	│      │ ◄──────────────────────────────────────────────── │          │
//	└──────┘   one that follows it, or one that is not ahead   └──────────┘
type clockGuard struct {
	newest uint64  // SentAt of the newest heartbeat; 0: none was heard
	at     Instant // when that came
	ahead  uint64  // SentAt of the one that it suspects; 0: it is sure
}

// maxLeap is how far a single heartbeat may be ahead of the publisher's time: less
// than lostFloor, lest one that is forged makes a publisher seem lost.
const maxLeap = quietHeartbeat + quietHeartbeat/2

// fresh reports whether a heartbeat that was sent at that time of its publisher is newer
// than all before, not overtaken or replayed. A single one that is further ahead than
// time has passed here may be forged, and would make all true ones old (docs/protocol §5.9).
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

// heard notes a heartbeat that is fresh. A copy of the newest does not make it younger.
func (g *clockGuard) heard(now Instant, sentAt uint64) {
	if sentAt > g.newest {
		*g = clockGuard{newest: sentAt, at: now}
	}
}

// statusOrder is where a status stands among those of its subscriber. Packets overtake each other, and may be replayed:
// a stale status may only advance what never goes back. docs/protocol §7.5.
type statusOrder struct {
	next  uint64
	echo  uint64        // SentAt of the newest heartbeat heard
	delay time.Duration // since then
}

func orderOf(st *wire.Status) statusOrder { return statusOrder{st.Next, st.Echo, st.EchoDelay} }

// before reports whether a was sent before b for certain.
func (a statusOrder) before(b statusOrder) bool {
	return a.next < b.next || a.echo < b.echo || a.echo == b.echo && a.delay < b.delay
}

// supersedes reports whether a was sent after b for certain, or may have been.
func (a statusOrder) supersedes(b statusOrder) bool { return !a.before(b) && a != b }

// fromFuture reports whether it echoes a heartbeat that is still to be sent. A caller's now may be a little old.
func (a statusOrder) fromFuture(now Instant) bool { return a.echo > uint64(now.Add(activeHeartbeat)) }

const (
	// staleStatus is how old a status that admits a subscriber may be: the heartbeat that it echoes may have lain
	// unread for as long, behind a slow handler or in a process that did not run. NAKs and statuses that repeat the
	// last one may be replayed: they are a sign of life for repeatedLife after one that was new.
	staleStatus  = mostExtension
	repeatedLife = mostExtension
)

// stale reports whether a status is too old to admit its subscriber: since is the time since the heartbeat that it
// echoes. Without such a heartbeat that cannot be known.
func (a statusOrder) stale(since time.Duration) bool {
	return a.echo != 0 && since-a.delay > staleStatus
}
