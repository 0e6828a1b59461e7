// Package reliable is Fanfare's protocol: it turns lossy, reordering multicast datagrams into streams of messages in
// order, without duplicates and without silent loss. docs/protocol numbers its rules; comments here cite them.
//
// A packet at its publisher:
//
//	Writer.Append   the next does not fit    Sender.Assign   Sender.Next          its memory is needed (Sender.Grant)
//	┌──────┐ ─────────► ┌────────┐ ───────────► ┌──────────┐ ─────► ┌────────────┐ ─────► ┌──────┐
//	│ open │            │ closed │              │ assigned │        │ repairable │ ◄─┐    │ gone │
//	└──────┘            └────────┘              └──────────┘        └────────────┘ ──┘    └──────┘
//	                                             has a sequence                     a NAK: sent again
//
// at a receiver:
//
//	          a later one came            it came          all before it were
//	┌─────────┐ ──────► ┌─────────┐ ─────────► ┌─────────────┐ ──────► ┌───────────┐
//	│ unknown │         │ missing │ ──┐        │ held, lent  │         │ delivered │
//	└─────────┘         └─────────┘   │        └─────────────┘         └───────────┘
//	                      ▲    ask    │ too late, or its publisher has it no more: gone, a gap
//	                      └── (NAK)   ▼
//
// and a publisher's stream at a receiver (liveness, recv_liveness.go):
//
//	 its first packet           silence (§11.3)
//	────────► ┌────┐ ──────────────────────────► ┌──────┐ ────────► removed, once a later
//	          │ up │ ◄────────────────────────── │ down │           instance is known
//	          └────┘        a sign of life       └──────┘
//	          │    ▲
//	          │    │ packets beyond the end
//	          ▼    │
//	         ┌───────┐ all is delivered  ┌──────────┐ 2 s
//	         │ ended │ ────────────────► │ finished │ ────────────► removed, remembered
//	         └───────┘                   └──────────┘
//	 two heartbeats with the end, or one and silence
//
// Read the files in this order. The way out: send_writer.go and send_fragments.go (messages into packet memory),
// send_sequence.go (sequences, as far as send_flow.go and send_ratelimit.go allow), send_train.go (what leaves:
// control packets, repairs within their budget, new data), send_repair.go (NAKs), send_members.go (statuses),
// send_heartbeat.go (the tail), send_stall.go (members that hold the publisher up). The way in: receiver.go (packets to
// streams), recv_stream.go (what is in order is delivered at once and in place), recv_window.go and recv_loans.go (what
// waits), recv_missing.go and recv_nak.go (one NAK for all gaps), recv_liveness.go (silence and ends), recv_output.go
// (events, which a Reader of internal/topics turns into messages). Then what has pages of its own in docs/protocol:
// requests (send_requests.go, recv_replies.go), state (send_state.go, recv_state.go), legs (recv_legs.go), compression
// (send_packed.go, recv_packed.go), names (send_naming.go, recv_names.go).
//
// The package is pure. It opens no socket, starts no goroutine, reads no clock and draws no randomness of its own: the
// time (now) and the random source come in, packets to send and messages to deliver come out. internal/engine runs it
// over a transport; test/sim runs it in virtual time.
//
// testdata/*.txt shows it at work: exchanges of packets and time, which a test runs.
package reliable

import "time"

// Instant is a time on the caller's monotonic clock, in nanoseconds. Zero is "never" for a time in the past.
type Instant int64

// Never is later than every instant.
const Never Instant = 1<<63 - 1

// Add returns t+d.
func (t Instant) Add(d time.Duration) Instant { return t + Instant(d) }

// Sub returns t-u.
func (t Instant) Sub(u Instant) time.Duration { return time.Duration(t - u) }
