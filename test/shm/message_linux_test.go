package shm

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/fanfaremq/fanfare/pubsub"
)

// A message of these tests: CRC-32 of the rest, its number, the publishing process, the publisher's
// round trip in microseconds, and its time of creation; then bytes that depend on its number.
const (
	atNumber  = 4
	atProcess = 12
	atTrip    = 16
	atMade    = 20
	atPayload = 28
)

// makeMessage writes message n to the front of buf. Some messages take many packets.
func makeMessage(rng *rand.Rand, buf []byte, n uint64, trip time.Duration) []byte {
	size := atPayload + rng.IntN(100)
	if n%50 == 0 {
		size = atPayload + rng.IntN(len(buf)-atPayload)
	}
	m := buf[:size]
	binary.LittleEndian.PutUint64(m[atNumber:], n)
	binary.LittleEndian.PutUint32(m[atProcess:], uint32(os.Getpid()))
	binary.LittleEndian.PutUint32(m[atTrip:], uint32(trip.Microseconds()))
	binary.LittleEndian.PutUint64(m[atMade:], uint64(time.Now().UnixNano()))
	for i := atPayload; i < size; i++ {
		m[i] = byte(n) + byte(i)
	}
	binary.LittleEndian.PutUint32(m, crc32.ChecksumIEEE(m[atNumber:]))
	return m
}

// intact reports whether a message is intact.
func intact(m []byte) bool {
	return len(m) >= atPayload && crc32.ChecksumIEEE(m[atNumber:]) == binary.LittleEndian.Uint32(m)
}

// checker detects messages that are torn or out of order, and losses without a report, in one subscription.
type checker struct {
	mu       sync.Mutex
	streams  map[string]*stream // by publisher
	sources  map[int]*source    // by publishing process
	messages uint64             // messages received
	gaps     uint64
}

// stream is what is expected of a publisher.
type stream struct {
	next  uint64
	loose bool // the number of messages lost before the next one is unknown
}

// source is what was received of a process.
type source struct {
	trip  time.Duration
	since time.Time // messages created later count
	bytes int
}

func newChecker() *checker {
	return &checker{streams: make(map[string]*stream), sources: make(map[int]*source)}
}

// stream returns the stream of a publisher in which a message or gap begins at n. Under mu.
func (c *checker) stream(publisher pubsub.PublisherID, epoch, n uint64) *stream {
	key := fmt.Sprint(publisher, epoch)
	s := c.streams[key]
	if s == nil {
		s = &stream{next: n}
		c.streams[key] = s
	}
	return s
}

func (c *checker) message(m *pubsub.Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !intact(m.Data) {
		return fmt.Errorf("a torn message of %d bytes", len(m.Data))
	}
	n := binary.LittleEndian.Uint64(m.Data[atNumber:])
	if n != m.Number {
		return fmt.Errorf("message %d has number %d", n, m.Number)
	}
	s := c.stream(m.Publisher(), uint64(m.Epoch()), n)
	if n < s.next || n > s.next && !s.loose {
		return fmt.Errorf("message %d, but the next one is %d: no gap was reported", n, s.next)
	}
	*s = stream{next: n + 1}
	c.messages++
	pid := int(binary.LittleEndian.Uint32(m.Data[atProcess:]))
	src := c.sources[pid]
	if src == nil {
		src = new(source)
		c.sources[pid] = src
	}
	src.trip = time.Duration(binary.LittleEndian.Uint32(m.Data[atTrip:])) * time.Microsecond
	if int64(binary.LittleEndian.Uint64(m.Data[atMade:])) > src.since.UnixNano() {
		src.bytes += len(m.Data)
	}
	return nil
}

func (c *checker) gap(g *pubsub.GapError) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gaps++
	s := c.stream(g.Publisher, uint64(g.Epoch), g.First)
	if g.Count == 0 {
		s.loose = true
		return nil
	}
	if g.First < s.next || g.First > s.next && !s.loose {
		return fmt.Errorf("a gap from message %d on, but the next one is %d", g.First, s.next)
	}
	*s = stream{next: g.First + g.Count}
	return nil
}

// received reports whether any message of a process has arrived.
func (c *checker) received(pid int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sources[pid] != nil
}

// count begins to count the bytes of a process created from now on.
func (c *checker) count(pid int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sources[pid].since, c.sources[pid].bytes = time.Now(), 0
}

// counted returns that number of bytes, and the round trip measured by the process.
func (c *checker) counted(pid int) (bytes int, trip time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sources[pid].bytes, c.sources[pid].trip
}

// totals returns the messages and gaps received, and the number of processes.
func (c *checker) totals() (messages, gaps uint64, processes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.messages, c.gaps, len(c.sources)
}
