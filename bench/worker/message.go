package worker

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
)

// MinSize is the size of the smallest message that can be checked, in bytes.
// Messages are made of
//
//	number (8 bytes) | when due, or filler (8) | filler | number, scrambled (8)
//
// in little-endian order. Number and tail of every message are checked, the
// filler of every 64th, or of all if asked for: a check of every byte would
// measure itself. The tail of the last message has one bit flipped.
const MinSize = 24

const (
	stampAt   = 8
	fillerAt  = 16
	tailBytes = 8
	sampled   = 63 // a mask: message numbers with none of these bits
	lastMark  = 1 << 63
	// markEvery is how many messages apart the time is taken.
	markEvery = 1024
)

// tail is what a message ends with. It is another for each number, so that a
// message cut short or put together of two is found.
func tail(number uint64) uint64 { return number*tailStep + 1 }

const tailStep = 0x9e3779b97f4a7c15

// fillerPeriod is after how many bytes the filler repeats itself, so that a packet with
// one large message can be compressed too.
const fillerPeriod = 64

// filler is the same in all processes.
func filler(size int) []byte {
	b := make([]byte, min(size, fillerPeriod))
	r := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return bytes.Repeat(b, size/fillerPeriod+1)[:size]
}

// Source makes messages. It is for one goroutine.
type Source struct {
	ring  [][]byte
	size  int
	batch int
	next  uint64
	tail  uint64 // of next, for Fill
	plain []byte // a message without number
}

// sourceBytes bounds the messages kept ready, so that they stay in the cache.
const sourceBytes = 4 << 10

// NewSource returns a source of messages of size bytes, numbered from 0.
func NewSource(size int) *Source { return newSource(size, 1) }

// newSource returns one whose Batch has batch messages, a power of two.
func newSource(size, batch int) *Source {
	n := 2 * batch
	for n < 32 && 2*n*size <= sourceBytes {
		n *= 2
	}
	s := &Source{size: size, batch: batch, ring: make([][]byte, n), tail: tail(0), plain: filler(size)}
	// One block, on whole cache lines apart.
	pitch := (size + 63) &^ 63
	block := make([]byte, n*pitch)
	for i := range s.ring {
		s.ring[i] = block[i*pitch:][:size:size]
		copy(s.ring[i], filler(size))
		s.number(uint64(i))
	}
	return s
}

// Next returns the next message, which is valid until the next call. Its number
// was written some calls before: a copy that follows a store of a part of what
// it copies has to wait for it, and would be what is measured.
func (s *Source) Next() []byte {
	n := s.next
	s.next++
	ahead := n + uint64(len(s.ring)/2)
	s.number(ahead)
	return s.ring[n&uint64(len(s.ring)-1)]
}

// Batch returns the next messages, as many as the source was made for. They are valid until the next
// call. Numbers are written as by Next.
func (s *Source) Batch() [][]byte {
	n := s.next
	s.next += uint64(s.batch)
	for i := range uint64(s.batch) {
		s.number(n + uint64(len(s.ring)/2) + i)
	}
	at := n & uint64(len(s.ring)-1)
	return s.ring[at : at+uint64(s.batch)]
}

func (s *Source) number(n uint64) {
	b := s.ring[n&uint64(len(s.ring)-1)]
	binary.LittleEndian.PutUint64(b, n)
	binary.LittleEndian.PutUint64(b[s.size-tailBytes:], tail(n))
}

// Fill writes as many of the next messages to p as it has room for, each behind its
// length in 4 bytes, and returns how many bytes that took. It is for who writes
// messages where they are sent from.
func (s *Source) Fill(p []byte) int {
	const prefix = 4
	n, number, end := s.size, s.next, s.tail
	off := 0
	for ; len(p)-off >= prefix+n; off += prefix + n {
		m := p[off : off+prefix+n]
		binary.LittleEndian.PutUint32(m, uint32(n))
		m = m[prefix:]
		copy(m, s.plain)
		binary.LittleEndian.PutUint64(m, number)
		binary.LittleEndian.PutUint64(m[len(m)-tailBytes:], end)
		number++
		end += tailStep
	}
	s.next, s.tail = number, end
	return off
}

// Last returns the next message, marked as the last one.
func (s *Source) Last() []byte {
	b := s.Next()
	binary.LittleEndian.PutUint64(b, s.next-1) // after Fill it is not there yet
	markLast(b)
	return b
}

// markLast marks a message as the last one of its source.
func markLast(b []byte) {
	binary.LittleEndian.PutUint64(b[len(b)-tailBytes:], tail(binary.LittleEndian.Uint64(b))^lastMark)
}

func (s *Source) take() (int, []byte) { return 0, s.Next() }

// Sent is how many messages were taken.
func (s *Source) Sent() uint64 { return s.next }

// Stamp writes when a message was due.
func Stamp(msg []byte, at int64) { binary.LittleEndian.PutUint64(msg[stampAt:], uint64(at)) }

// Stamped is when a message was due.
func Stamped(msg []byte) int64 { return int64(binary.LittleEndian.Uint64(msg[stampAt:])) }

// Check checks that messages come in order, each once, with the content that
// Source gave them. It is for one goroutine.
type Check struct {
	next  uint64
	tail  uint64 // of next
	size  int
	every uint64 // a mask: the content of numbers with none of these bits is checked
	checkRest
}

// checkRest is what all checks have, and touch seldom.
type checkRest struct {
	filler  []byte
	stamped bool
	first   func() // called with the first message
	lossy   bool   // what is missing is no fault, but counted
	missing uint64 // messages
	gaps    uint64
	bad     uint64
	fault   string
	// start is when the first message came; end, when the latest mark was
	// reached, or the last message, and endAt how many had come by then.
	start, end int64
	endAt      uint64
	markAt     uint64 // how many will have come at the next mark
	last       bool   // the last message has come
}

// NewCheck returns a check for messages of size bytes. Where stamped is set they
// hold when they were due. A lossy stream may lack messages. first is called
// when the first message comes.
func NewCheck(size int, stamped, lossy, all bool, first func()) *Check {
	c := &Check{size: size, every: sampled, tail: tail(0), checkRest: checkRest{filler: filler(size), stamped: stamped, lossy: lossy, first: first}}
	if all {
		c.every = 0
	}
	return c
}

// On is Message.
func (c *Check) On(_ string, b []byte) { c.Message(b) }

// Message checks the next message.
func (c *Check) Message(b []byte) {
	if len(b) == c.size && c.next&c.every != 0 && binary.LittleEndian.Uint64(b) == c.next &&
		binary.LittleEndian.Uint64(b[len(b)-tailBytes:]) == c.tail {
		c.next++
		c.tail += tailStep
		return
	}
	c.slow(b)
}

func (c *Check) slow(b []byte) {
	defer func() { c.tail = tail(c.next) }()
	if c.start == 0 {
		c.first()
		c.start = Now()
	}
	if len(b) != c.size {
		c.Bad(fmt.Sprintf("message %d has %d bytes, not %d", c.next, len(b), c.size))
		c.next++
		return
	}
	n := binary.LittleEndian.Uint64(b)
	switch {
	case n < c.next:
		c.Bad(fmt.Sprintf("message %d came again, or after message %d", n, c.next-1))
		return
	case n > c.next && !c.lossy:
		c.Bad(fmt.Sprintf("message %d came in place of message %d", n, c.next))
	case n > c.next:
		c.missing += n - c.next
		c.gaps++
	}
	c.next = n + 1
	last, ok := c.content(b, n)
	if !ok {
		c.Bad(fmt.Sprintf("message %d has the wrong content", n))
		return
	}
	c.last = last
	c.mark(c.Received(), last)
}

// content reports whether the message with number n holds what it was given, and whether
// it is marked as the last one.
func (r *checkRest) content(b []byte, n uint64) (last, ok bool) {
	from, end := fillerAt, len(b)-tailBytes
	if !r.stamped {
		from = stampAt
	}
	mark := binary.LittleEndian.Uint64(b[end:]) ^ tail(n)
	return mark == lastMark, (mark == 0 || mark == lastMark) && bytes.Equal(b[from:end], r.filler[from:end])
}

// mark takes the time once in markEvery messages, and of a last one.
func (r *checkRest) mark(received uint64, last bool) {
	if received >= r.markAt || last {
		r.end, r.endAt = Now(), received
		r.markAt = received + markEvery
	}
}

// Bad counts something that must not be.
func (r *checkRest) Bad(what string) {
	r.bad++
	if r.fault == "" {
		r.fault = what
	}
}

// report writes what all checks have to report.
func (r *checkRest) report(rep *Report) {
	rep.Start, rep.End, rep.Timed = r.start, r.end, r.endAt
	rep.Lost, rep.Gaps, rep.Bad, rep.Fault = r.missing, r.gaps, r.bad, r.fault
}

// Gap takes note that count messages from number first on are known to be
// lost.
func (c *Check) Gap(_ string, first, count uint64) {
	if first != c.next {
		c.Bad(fmt.Sprintf("a gap from message %d on came in place of message %d", first, c.next))
	}
	c.gaps++
	c.missing += count
	c.next = max(c.next, first+count)
	c.tail = tail(c.next)
}

// Done reports whether the last message has come.
func (c *Check) Done() bool { return c.last }

// Received is how many messages came.
func (c *Check) Received() uint64 { return c.next - c.missing }

// count is how many messages there were so far, with those that are missing.
func (c *Check) count() uint64 { return c.next }

// report writes the check's part of a report.
func (c *Check) report(r *Report) {
	c.checkRest.report(r)
	r.Messages = c.Received()
}
