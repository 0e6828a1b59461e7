package main

import (
	"encoding/binary"
	"io"
	"time"

	"github.com/fanfaremq/fanfare/examples/marketdata/itch"
)

// recording is the beginning of a feed, made before anything is published: to generate
// messages, to decompress them and to build books costs more than to publish them, and a
// run without a limit should show what publishing takes.
//
// In memory a message is
//
//	topic's index, 4 bytes | length, 1 byte | ITCH message
type recording struct {
	bytes []byte
	at    int
}

const (
	// recordMost bounds a recording, in bytes: three and a half million messages. What
	// follows is made as it is published.
	recordMost     = 128 << 20
	recordOverhead = 5
	// recordMean is about what a message takes.
	recordMean = 36
)

// record records what most bytes hold of src, and passes each message to apply. total is
// how many there will be.
func record(src source, total, most uint64, apply func(msg []byte) error) (*recording, error) {
	rec := &recording{bytes: make([]byte, 0, min(total, most/recordMean)*recordMean)}
	for uint64(len(rec.bytes)+recordOverhead+itch.MaxMessage) <= most {
		msg, topic, _, err := src.next()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = apply(msg)
		}
		if err != nil {
			return nil, err
		}
		rec.bytes = binary.LittleEndian.AppendUint32(rec.bytes, uint32(topic))
		rec.bytes = append(rec.bytes, byte(len(msg))) // itch.MaxMessage fits
		rec.bytes = append(rec.bytes, msg...)
	}
	return rec, nil
}

// next returns the next message and its topic; at the end it returns nothing.
func (r *recording) next() (msg []byte, topic int) {
	if r == nil || r.at == len(r.bytes) {
		return nil, 0
	}
	b := r.bytes[r.at:]
	n := recordOverhead + int(b[recordOverhead-1])
	r.at += n
	return b[recordOverhead:n], int(binary.LittleEndian.Uint32(b))
}

// sparseClock tells the time, which takes as long to ask for as a message to publish. It asks
// again once in a number of calls.
type sparseClock struct {
	every int
	left  int
	now   time.Time
}

// unpacedClock is how many messages share a time in a run without a limit: its latencies are
// milliseconds, of waiting for others.
const unpacedClock = 16

func newClock(paced bool) sparseClock {
	if paced {
		return sparseClock{every: 1}
	}
	return sparseClock{every: unpacedClock}
}

func (c *sparseClock) time() time.Time {
	if c.left--; c.left < 0 {
		c.left, c.now = c.every-1, time.Now()
	}
	return c.now
}
