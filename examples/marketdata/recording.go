package main

import (
	"encoding/binary"
	"io"
	"time"

	"github.com/fanfaremq/fanfare/examples/marketdata/itch"
)

// recording is a source whose first messages were made before anything is
// published: to generate messages, to decompress them and to build books costs
// more than to publish them, and a run without a limit should show what
// publishing takes.
//
// In memory a message is
//
//	topic's index, 4 bytes | length, 1 byte | ITCH message
type recording struct {
	source // of what follows
	bytes  []byte
}

const (
	// maxRecorded bounds a recording, in bytes: three and a half million messages.
	maxRecorded    = 128 << 20
	recordOverhead = 5
	// meanRecorded is about what a message takes.
	meanRecorded = 36
)

// record records what most bytes hold of src, which has total messages, and
// brings it into the books.
func (p *publisher) record(src source, total, most uint64) (source, error) {
	rec := &recording{src, make([]byte, 0, min(total, most/meanRecorded)*meanRecorded)}
	for uint64(len(rec.bytes)+recordOverhead+itch.MaxMessage) <= most {
		msg, topic, _, err := src.next()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = p.apply(msg)
		}
		if err != nil {
			return nil, err
		}
		p.booked++
		rec.bytes = binary.LittleEndian.AppendUint32(rec.bytes, uint32(topic))
		rec.bytes = append(rec.bytes, byte(len(msg))) // itch.MaxMessage fits
		rec.bytes = append(rec.bytes, msg...)
	}
	return rec, nil
}

func (r *recording) next() (msg []byte, topic int, due time.Duration, err error) {
	if len(r.bytes) == 0 {
		return r.source.next()
	}
	n := recordOverhead + int(r.bytes[recordOverhead-1])
	msg, topic = r.bytes[recordOverhead:n], int(binary.LittleEndian.Uint32(r.bytes))
	r.bytes = r.bytes[n:]
	return msg, topic, 0, nil
}

// sparseClock returns the time, and asks for it once in a number of calls: to ask takes as
// long as to publish a message.
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
