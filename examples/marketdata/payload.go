package main

import (
	"encoding/binary"
	"errors"
	"time"
)

// The published payload is an ITCH message after a prefix of 16 bytes:
//
//	 0                  8                  16
//	+------------------+------------------+----------------
//	| sent, ns since   | number of the    | ITCH message,
//	| 1970, 8 bytes    | message, 8 bytes |
//	+------------------+------------------+----------------
//
// Sent is the time right before Publish, so that a latency includes everything: waiting for a slow
// subscriber, waiting for a full train, the network, and repair. It is wall-clock time, because Go
// offers no other clock that processes share; here all of them run on one machine.
//
// The number counts the messages of the topic from 0. The library guarantees that each is delivered
// once and in order; with the number the example verifies that.
const prefixLen = 16

var errShortPayload = errors.New("message is shorter than its prefix")

// appendPayload appends a message to be published.
func appendPayload(b []byte, sent time.Time, number uint64, msg []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(sent.UnixNano()))
	b = binary.BigEndian.AppendUint64(b, number)
	return append(b, msg...)
}

// parsePayload splits a received message. The ITCH message points into b.
func parsePayload(b []byte) (sent time.Time, number uint64, msg []byte, err error) {
	if len(b) < prefixLen {
		return time.Time{}, 0, nil, errShortPayload
	}
	sent = time.Unix(0, int64(binary.BigEndian.Uint64(b)))
	return sent, binary.BigEndian.Uint64(b[8:]), b[prefixLen:], nil
}
