package worker

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
)

// MinSize is the size of the smallest message that can be checked, in bytes. The layout of messages is
//
//	number (8 bytes) | when due, or filler (8) | filler | number, scrambled (8)
//
// in little-endian order. Number and tail of every message are checked, the filler of every 64th, or of all if
// requested: checking every byte would dominate the measurement. In the last message one bit of the tail is flipped.
const MinSize = 24

const (
	stampAt   = 8
	fillerAt  = 16
	tailBytes = 8
	sampled   = 63 // a mask: numbers of sampled messages have none of these bits
	lastMark  = 1 << 63
	// markEvery is the number of messages between readings of the clock.
	markEvery = 1024
)

// tail is the last part of a message. It is different for each number, so that truncated and mixed
// messages are detected.
func tail(number uint64) uint64 { return number*tailStep + 1 }

const tailStep = 0x9e3779b97f4a7c15

// fillerPeriod is the period of the filler in bytes, so that a packet with one large message can be compressed, too.
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

// Source makes messages, of one topic or many. It is not safe for concurrent use.
type Source struct {
	ring   [][]byte
	size   int
	batch  int
	next   uint64  // number of messages returned
	tail   uint64  // of next, for Fill
	plain  []byte  // a message without number
	topics *series // with many topics
}

// sourceBytes bounds the prepared messages, so that they stay in the cache.
const sourceBytes = 4 << 10

// NewSource returns a source of messages of size bytes, numbered from 0.
func NewSource(size int) *Source { return newSource(size, 1, nil) }

// newSource returns a source with batch messages, a power of two, in each Batch.
func newSource(size, batch int, topics *series) *Source {
	n := 2 * batch
	for n < 32 && 2*n*size <= sourceBytes {
		n *= 2
	}
	s := &Source{size: size, batch: batch, ring: make([][]byte, n), tail: tail(0), plain: filler(size), topics: topics}
	// One block, with messages on separate cache lines.
	pitch := (size + 63) &^ 63
	block := make([]byte, n*pitch)
	for i := range s.ring {
		s.ring[i] = block[i*pitch:][:size:size]
		copy(s.ring[i], s.plain)
		s.number(uint64(i), uint64(i))
	}
	if topics != nil {
		topics.ring = make([]uint32, n)
		for i := range n / 2 {
			s.number(uint64(i), topics.nextNumber(uint64(i)))
		}
	}
	return s
}

// Next returns the next message of the only topic, valid until the next call. Its number was
// written some calls earlier: a copy right after a store to a part of its source has to wait for
// that store, which would distort the measurement.
func (s *Source) Next() []byte {
	n := s.next
	s.next++
	ahead := n + uint64(len(s.ring)/2)
	s.number(ahead, ahead)
	return s.ring[n&uint64(len(s.ring)-1)]
}

// Take returns the next message, like Next, and the index of its topic.
func (s *Source) Take() (topic int, msg []byte) {
	if s.topics == nil {
		return 0, s.Next()
	}
	i := s.next
	s.next++
	ahead := i + uint64(len(s.ring)/2)
	s.number(ahead, s.topics.nextNumber(ahead&uint64(len(s.ring)-1)))
	at := i & uint64(len(s.ring)-1)
	return int(s.topics.ring[at]), s.ring[at]
}

// Batch returns the next messages, as many as the source was made for, valid until the next call.
// Numbers are written as by Next.
func (s *Source) Batch() [][]byte {
	n := s.next
	s.next += uint64(s.batch)
	for i := range uint64(s.batch) {
		ahead := n + uint64(len(s.ring)/2) + i
		s.number(ahead, ahead)
	}
	at := n & uint64(len(s.ring)-1)
	return s.ring[at : at+uint64(s.batch)]
}

// number writes number n to the i-th message.
func (s *Source) number(i, n uint64) {
	b := s.ring[i&uint64(len(s.ring)-1)]
	binary.LittleEndian.PutUint64(b, n)
	binary.LittleEndian.PutUint64(b[s.size-tailBytes:], tail(n))
}

// Fill writes as many of the next messages to p as fit, each after its length in 4 bytes, and returns
// the number of bytes written. It is for contenders that write messages directly into send buffers.
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

// Last returns the next message, marked as the last of its source, and the index of its topic.
func (s *Source) Last() (topic int, msg []byte) {
	topic, msg = s.Take()
	if s.topics == nil {
		binary.LittleEndian.PutUint64(msg, s.next-1) // after Fill the number is not written yet
	}
	markLast(msg)
	return topic, msg
}

// markLast marks a message as the last of its source.
func markLast(b []byte) {
	binary.LittleEndian.PutUint64(b[len(b)-tailBytes:], tail(binary.LittleEndian.Uint64(b))^lastMark)
}

// stamp writes the time when a message was due.
func stamp(msg []byte, at int64) { binary.LittleEndian.PutUint64(msg[stampAt:], uint64(at)) }

// dueAt reads the time when a message was due.
func dueAt(msg []byte) int64 { return int64(binary.LittleEndian.Uint64(msg[stampAt:])) }
