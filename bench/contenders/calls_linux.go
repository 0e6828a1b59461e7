package contenders

import (
	"encoding/binary"

	"github.com/fanfaremq/fanfare/bench/worker"
)

// What follows is raw, and ring, with a call a message on both sides: the least that an interface costs whose user has a
// message somewhere and hands it over, and whose handler is called with one. What the compiler cannot see through is
// what matters, so nothing of it may be inlined.

// callWriter writes the messages of one datagram, or of one block of ring's.
type callWriter struct {
	p   []byte
	off int
}

// publish copies a message behind its length. It reports false where there is no room.
//
//go:noinline
func (c *callWriter) publish(msg []byte) bool {
	end := c.off + rawLength + len(msg)
	if end > len(c.p) {
		return false
	}
	b := c.p[c.off:end]
	binary.LittleEndian.PutUint32(b, uint32(len(msg)))
	copy(b[rawLength:], msg)
	c.off = end
	return true
}

// fill is worker.Source.Fill by a call a message, of size bytes each.
func (c *callWriter) fill(p []byte, src *worker.Source, size int) int {
	c.p, c.off = p, 0
	for range len(p) / (rawLength + size) {
		if !c.publish(src.Next()) {
			break
		}
	}
	return c.off
}

// handlerOf is a function that is called with each message.
func handlerOf(check *worker.Check) func(msg []byte) {
	return func(msg []byte) { check.Message(msg) }
}

// handle calls p.handler with the messages of a datagram.
func (p *rawParser) handle(d []byte) {
	for off := rawHeader; off+rawLength <= len(d); {
		n := int(binary.LittleEndian.Uint32(d[off:]))
		off += rawLength
		if n == 0 || off+n > len(d) {
			break
		}
		p.handler(d[off : off+n])
		off += n
	}
}
