// Package reliable is Fanfare's protocol: it turns lossy, reordering multicast datagrams into streams of messages in
// order, without duplicates and without silent loss. docs/protocol numbers its rules; comments here cite them.
//
// The package is pure. It opens no socket, starts no goroutine, reads no clock and draws no randomness of its own: the
// time (now) and the random source come in, packets to send and messages to deliver come out. internal/engine runs it
// over a transport; test/sim runs it in virtual time.
//
// The life of a message on the way out:
//
//  1. Writer.Append writes it into packet memory (send_writer.go).
//  2. Sender.Assign gives complete packets their sequences, as far as flow control
//     and the rate limit allow (send_sequence.go, send_flow.go, send_ratelimit.go).
//  3. Sender.Next hands trains to transmit to the caller: control packets,
//     repairs within their budget, then new data (send_train.go, send_repair.go).
//  4. Sender.Handle takes in NAKs and statuses (send_repair.go, send_members.go);
//     heartbeats carry the tail (send_heartbeat.go).
//
// and on the way in:
//
//  5. Receiver.Handle sorts packets into streams (receiver.go).
//  6. Stream.data delivers what is in order, at once and in place, and holds
//     the rest back until the gap is closed (recv_stream.go, recv_window.go,
//     recv_loans.go).
//  7. What is missing is asked for with one NAK for all gaps (recv_missing.go,
//     recv_nak.go), given up when it is gone or too late.
//  8. The stream's Output takes events, in order (recv_output.go); a Reader of
//     internal/topics turns them into messages and gaps of topics.
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
