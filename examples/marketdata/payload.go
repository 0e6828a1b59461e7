package main

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/fanfaremq/fanfare/examples/marketdata/book"
)

// What is published is an ITCH message behind 16 bytes of our own:
//
//	 0                  8                  16
//	+------------------+------------------+----------------
//	| sent, ns since   | number of the    | ITCH message,
//	| 1970, 8 bytes    | message, 8 bytes | or nothing
//	+------------------+------------------+----------------
//
// Sent is taken right before Publish, so that a latency covers everything:
// waiting for a slow subscriber, the wait for a full train, the network, and
// repair. In a run without a limit some messages share it
// (sparseClock). It is wall-clock time because processes share no other clock
// in Go; all of them run on one machine here.
//
// The number counts the messages of the topic from 0. The library promises
// each of them once and in order; the number is how the example checks it
// without trusting the library.
//
// A message without ITCH behind the prefix ends its topic. With -join there are
// checks, too, in the place of an ITCH message, whose types are letters: the
// digest of the publisher's book of one stock, as of the messages before.
//
//	+-----------------+-----------------------+------------------+
//	| checkType, byte | stock locate, 2 bytes | digest, 32 bytes |
//	+-----------------+-----------------------+------------------+
//
// The state of a topic (state.go) is for subscribers that join.
const prefixLen = 16

// checkType is the first byte of a check, and checkLen how long one is.
const (
	checkType = 0
	checkLen  = 3 + len(book.Digest{})
)

// appendCheck appends a check of a stock's book.
func appendCheck(b []byte, locate uint16, d book.Digest) []byte {
	b = binary.BigEndian.AppendUint16(append(b, checkType), locate)
	return append(b, d[:]...)
}

// parseCheck takes a message apart that is one.
func parseCheck(msg []byte) (locate uint16, d book.Digest, ok bool) {
	if len(msg) != checkLen || msg[0] != checkType {
		return 0, d, false
	}
	return binary.BigEndian.Uint16(msg[1:]), book.Digest(msg[3:]), true
}

var errShortPayload = errors.New("message is shorter than its prefix")

// appendPayload appends a message to be published. A msg of no bytes makes
// the end of the topic.
func appendPayload(b []byte, sent time.Time, number uint64, msg []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(sent.UnixNano()))
	b = binary.BigEndian.AppendUint64(b, number)
	return append(b, msg...)
}

// parsePayload takes a received message apart. The ITCH message points into b.
func parsePayload(b []byte) (sent time.Time, number uint64, msg []byte, err error) {
	if len(b) < prefixLen {
		return time.Time{}, 0, nil, errShortPayload
	}
	sent = time.Unix(0, int64(binary.BigEndian.Uint64(b)))
	return sent, binary.BigEndian.Uint64(b[8:]), b[prefixLen:], nil
}
