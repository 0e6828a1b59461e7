// Package reliable is Fanfare's protocol: it turns lossy, reordering multicast datagrams into ordered streams of
// messages, without duplicates and without silent loss. Comments cite the numbered rules of docs/protocol.
//
// A packet at its publisher:
//
//	Packets.Begin  Packets.Close           Sender.Sequence  Sender.Next      its memory is reused (Sender.Grant)
//	┌──────┐ ─────────► ┌────────┐ ───────────► ┌──────────┐ ─────► ┌────────────┐ ─────► ┌──────┐
//	│ open │            │ closed │              │ assigned │        │ repairable │ ◄─┐    │ gone │
//	└──────┘            └────────┘              └──────────┘        └────────────┘ ──┘    └──────┘
//	                                            has a sequence          a NAK: sent again
//
// A packet at a receiver:
//
//	        a later one is known         it arrives       earlier ones delivered or given up
//	┌─────────┐ ──────► ┌─────────┐ ─────────► ┌─────────────┐ ──────► ┌───────────┐
//	│ unknown │         │ missing │ ──┐        │ held, lent  │         │ delivered │
//	└─────────┘         └─────────┘   │        └─────────────┘         └───────────┘
//	                      ▲  request  │ deadline passed, or the publisher no longer has it: gone, a gap
//	                      └── (NAK)   ▼
//
// A publisher's stream at a receiver (liveness, recv_liveness.go):
//
//	 its first packet           silence (§11.3)
//	────────► ┌────┐ ──────────────────────────► ┌──────┐ ────────► removed, once a later
//	          │ up │ ◄────────────────────────── │ down │           instance is known
//	          └────┘        a sign of life       └──────┘
//	          │    ▲
//	          │    │ packets beyond the end
//	          ▼    │
//	         ┌───────┐ all delivered     ┌──────────┐ 2 s
//	         │ ended │ ────────────────► │ finished │ ────────────► removed, remembered
//	         └───────┘                   └──────────┘
//	 two heartbeats with the end flag, or one and then silence
//
// Reading order. Sending: send_packets.go (packets of the message layer get sequences, as far as send_flow.go and
// send_ratelimit.go allow), send_train.go (trains: control packets, repairs within their budget, new data),
// send_repair.go (NAKs), send_members.go (statuses), send_heartbeat.go (the end of a burst), send_stall.go (members
// that block the publisher). Receiving: receiver.go (packets to streams), recv_stream.go (packets in order are
// delivered at once and in place), recv_window.go (waiting packets), recv_loss.go and recv_nak.go (one NAK for all
// gaps), recv_liveness.go (silence and ends), recv_output.go (events, which a Reader of internal/topics turns into
// messages). Then the parts with pages of their own in docs/protocol: legs (recv_legs.go), history (recv_history.go).
// Topics are above: a Sender has a SenderControl, and a Stream calls its Contents. control.go has what the message
// layer, internal/topics, implements.
//
// The package is pure: it opens no socket, starts no goroutine, reads no clock and draws no randomness of its own.
// Callers pass in received packets, the time (now) and the random source, and take out packets to send and events to
// deliver. internal/engine runs it over a transport; test/sim runs it in virtual time.
//
// testdata/*.txt are example exchanges of packets over time, which a test runs.
package reliable

import "time"

// Instant is a time on the caller's monotonic clock, in nanoseconds. For a time in the past, zero means never.
type Instant int64

// Never is later than every instant.
const Never Instant = 1<<63 - 1

// Add returns t+d.
func (t Instant) Add(d time.Duration) Instant { return t + Instant(d) }

// Sub returns t-u.
func (t Instant) Sub(u Instant) time.Duration { return time.Duration(t - u) }
