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

// A message of these tests: CRC-32 of what follows it, its number, the process that published
// it, the publisher's round trip in microseconds, and when it was made; behind that, bytes that
// its number decides.
const (
	atNumber  = 4
	atProcess = 12
	atTrip    = 16
	atMade    = 20
	atRest    = 28
)

// makeMessage writes message n into the front of buf, some of them many packets long.
func makeMessage(rng *rand.Rand, buf []byte, n uint64, trip time.Duration) []byte {
	size := atRest + rng.IntN(100)
	if n%50 == 0 {
		size = atRest + rng.IntN(len(buf)-atRest)
	}
	m := buf[:size]
	binary.LittleEndian.PutUint64(m[atNumber:], n)
	binary.LittleEndian.PutUint32(m[atProcess:], uint32(os.Getpid()))
	binary.LittleEndian.PutUint32(m[atTrip:], uint32(trip.Microseconds()))
	binary.LittleEndian.PutUint64(m[atMade:], uint64(time.Now().UnixNano()))
	for i := atRest; i < size; i++ {
		m[i] = byte(n) + byte(i)
	}
	binary.LittleEndian.PutUint32(m, crc32.ChecksumIEEE(m[atNumber:]))
	return m
}

// whole reports whether a message is as it was made.
func whole(m []byte) bool {
	return len(m) >= atRest && crc32.ChecksumIEEE(m[atNumber:]) == binary.LittleEndian.Uint32(m)
}

// checker finds messages that are torn or out of order, and losses of which nothing was told.
// It is for one subscription.
type checker struct {
	mu      sync.Mutex
	streams map[string]*stream // of each publisher
	from    map[int]*source    // of each process that published
	came    uint64             // messages
	gaps    uint64
}

// stream is what is due of a publisher.
type stream struct {
	next  uint64
	loose bool // how many messages before the next one are lost is not known
}

// source is what has come of a process.
type source struct {
	trip  time.Duration
	since time.Time // bytes are counted that were made after this
	bytes int
}

func newChecker() *checker {
	return &checker{streams: make(map[string]*stream), from: make(map[int]*source)}
}

// stream is that of a publisher, in which a message or gap begins at n. Under mu.
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
	if !whole(m.Data) {
		return fmt.Errorf("a torn message of %d bytes", len(m.Data))
	}
	n := binary.LittleEndian.Uint64(m.Data[atNumber:])
	if n != m.Number {
		return fmt.Errorf("message %d has number %d", n, m.Number)
	}
	s := c.stream(m.Publisher(), uint64(m.Epoch()), n)
	if n < s.next || n > s.next && !s.loose {
		return fmt.Errorf("message %d where %d is due: no gap was told", n, s.next)
	}
	*s = stream{next: n + 1}
	c.came++
	pid := int(binary.LittleEndian.Uint32(m.Data[atProcess:]))
	src := c.from[pid]
	if src == nil {
		src = new(source)
		c.from[pid] = src
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
		return fmt.Errorf("a gap from message %d on where %d is due", g.First, s.next)
	}
	*s = stream{next: g.First + g.Count}
	return nil
}

// heard reports whether anything has come of a process.
func (c *checker) heard(pid int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.from[pid] != nil
}

// count begins to count the bytes of a process that are made from now on.
func (c *checker) count(pid int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.from[pid].since, c.from[pid].bytes = time.Now(), 0
}

// counted is how many bytes that are, and what round trip the process has measured.
func (c *checker) counted(pid int) (bytes int, trip time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.from[pid].bytes, c.from[pid].trip
}

// totals are messages and gaps that have come, and of how many processes.
func (c *checker) totals() (messages, gaps uint64, processes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.came, c.gaps, len(c.from)
}
