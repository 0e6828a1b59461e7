package main

import (
	"encoding/binary"
	"errors"
	"time"
)

// What is published is an ITCH message behind 16 bytes of our own:
//
//	 0                  8                  16
//	+------------------+------------------+----------------
//	| sent, ns since   | number of the    | ITCH message,
//	| 1970, 8 bytes    | message, 8 bytes |
//	+------------------+------------------+----------------
//
// Sent is taken right before Publish, so that a latency covers everything: waiting for a slow subscriber, the wait for
// a full train, the network, and repair. It is wall-clock time because processes share no other clock in Go; all of
// them run on one machine here.
//
// The number counts the messages of the topic from 0. The library promises each of them once and in order; the number
// is how the example checks it without trusting the library.
const prefixLen = 16

var errShortPayload = errors.New("message is shorter than its prefix")

// appendPayload appends a message to be published.
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
