package sim

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
)

// truth is what one publisher has handed to the network in one epoch, read from its packets.
type truth struct {
	publisher, epoch uint64
	o                *Publisher
	content          *Content
	unpacker         wire.Unpacker
	next             uint64 // sequence of its next new packet
	sums             []uint32
	handed           []reliable.Instant // when each packet was handed out first
	lost             []uint64           // of each packet, which subscribers lost its first transmission on all legs
	topics           []topicTruth       // in the order of topicNames
	fragmentOf       int                // topic
	firstPacket      uint64
	whole            []byte
	// What was written, but not yet sent, by writer.
	written [][]message
	pops    []int

	members       map[uint64]*present // subscribers it has heard of
	killed, ended bool
	made          map[uint64]map[uint64]*made // replies to its requests, by key of the message and receiver
	trail         uint64                      // it has said that it cannot send packets below again
}

type topicTruth struct {
	id    uint64
	named bool // its name was in the stream
	sent  []message
}

// message is one message as it was written.
type message struct {
	key         uint64 // of its content
	size        int
	topic       int
	asks        bool             // it is a request
	at          reliable.Instant // first transmission of its last packet
	first, last uint64           // its packets
}

// content is that of the message of a key: the writer in its first byte, if it has any,
// then a pattern of words, of which one in four is new, so that it can be compressed.
type content struct {
	x, before uint64
	words     int
}

// next is the next word.
func (c *content) next() uint64 {
	w := c.x
	if c.words%4 > 0 {
		w = c.before
	}
	c.words++
	c.x, c.before = c.x*0x9e3779b97f4a7c15+1, w
	return w
}

// fill writes the content of the message of that key.
func fill(b []byte, key uint64) {
	c := content{x: key}
	i := 0
	for ; i+8 <= len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], c.next())
	}
	for x := c.next(); i < len(b); i++ {
		b[i] = byte(x)
		x >>= 8
	}
}

// matches reports whether b is the content of the message of that key.
func matches(b []byte, key uint64) bool {
	c := content{x: key}
	i := 0
	for ; i+8 <= len(b); i += 8 {
		if binary.LittleEndian.Uint64(b[i:]) != c.next() {
			return false
		}
	}
	for x := c.next(); i < len(b); i++ {
		if b[i] != byte(x) {
			return false
		}
		x >>= 8
	}
	return true
}

func (s *sim) newTruth(publisher, epoch uint64, o *Publisher) *truth {
	t := &truth{
		publisher: publisher, epoch: epoch, o: o, content: s.o.Content, unpacker: s.unpacker,
		topics:  make([]topicTruth, o.Topics),
		written: make([][]message, o.Writers), pops: make([]int,
			o.Writers), members: make(map[uint64]*present), made: make(map[uint64]map[uint64]*made),
	}
	for i, id := range s.topicIDs[:o.Topics] {
		t.topics[i].id = id
	}
	return t
}

// write notes that a writer has written m: it shall be sent, in order with the writer's others.
func (t *truth) write(writer int, m message) { t.written[writer] = append(t.written[writer], m) }

// unwrite takes the writer's last message back.
func (t *truth) unwrite(writer int) { t.written[writer] = t.written[writer][:len(t.written[writer])-1] }

func (t *truth) topic(id uint64) int {
	for i := range t.topics {
		if t.topics[i].id == id {
			return i
		}
	}
	return -1
}

// sum is over all of a packet that may not change between transmissions.
func sum(b []byte) uint32 {
	c := crc32.Update(0, castagnoli, b[:4])
	return crc32.Update(c, castagnoli, b[5:])
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sent takes in a data packet as the publisher hands it to the network.
func (t *truth) sent(now reliable.Instant, b []byte) (again bool, err error) {
	h, err := wire.ParseHeader(b)
	if err != nil {
		return false, err
	}
	d, err := wire.ParseData(b)
	if err != nil {
		return false, err
	}
	repair := h.Flags&wire.FlagRepair != 0
	switch {
	case h.Publisher != t.publisher || h.Epoch != t.epoch:
		return false, fmt.Errorf("packet of stream %d.%d sent by %d.%d", h.Publisher, h.Epoch, t.publisher, t.epoch)
	case repair != (d.Seq < t.next):
		return false, fmt.Errorf("packet %d sent, repair %v, %d is next", d.Seq, repair, t.next)
	case repair && t.sums[d.Seq] != sum(b):
		return true, fmt.Errorf("repair of packet %d differs from the original", d.Seq) // docs/protocol §2.2, §26.6
	case repair:
		return true, nil
	case d.Seq != t.next:
		return false, fmt.Errorf("new packet %d sent, %d was to come", d.Seq, t.next)
	}
	t.next++
	t.sums = append(t.sums, sum(b))
	runs := d.Runs
	if d.Codec != wire.CodecNone {
		plain, err := wire.Unpack(t.unpacker, nil, b)
		if err != nil {
			return false, err
		}
		runs = reliable.PacketData(plain)
		if len(plain) <= len(b) {
			return false, fmt.Errorf("packet %d has %d bytes, and %d unpacked", d.Seq, len(b), len(plain))
		}
	}
	for {
		r, rest, ok := wire.NextRun(runs)
		if !ok {
			return false, nil
		}
		runs = rest
		if err := t.run(now, d.Seq, r); err != nil {
			return false, fmt.Errorf("packet %d: %w", d.Seq, err)
		}
	}
}

func (t *truth) run(now reliable.Instant, seq uint64, r wire.Run) error {
	if r.Kind == wire.RunState {
		return nil
	}
	i := t.topic(r.Topic)
	if i < 0 {
		return fmt.Errorf("run of unknown topic %#x", r.Topic)
	}
	if want := uint64(len(t.topics[i].sent)); r.Number != want {
		return fmt.Errorf("topic %d: run begins with message %d, not %d", i, r.Number, want)
	}
	if r.Kind == wire.RunTopic {
		if string(r.Body) != topicNames[i] {
			return fmt.Errorf("topic %d: its name is %q", i, r.Body)
		}
		t.topics[i].named = true
		return nil
	}
	if !t.topics[i].named {
		return fmt.Errorf("topic %d: a message before its name", i)
	}
	if r.Kind == wire.RunFragment {
		return t.fragment(now, seq, i, r.Body)
	}
	n := 0
	for body := r.Body; len(body) > 0; n++ {
		m, rest, ok := wire.NextMessage(body)
		if !ok {
			return fmt.Errorf("topic %d: message does not parse", i)
		}
		body = rest
		if err := t.message(now, seq, seq, i, m); err != nil {
			return err
		}
	}
	if n == 0 {
		return fmt.Errorf("topic %d: run without messages", i)
	}
	return nil
}

func (t *truth) fragment(now reliable.Instant, seq uint64, i int, body []byte) error {
	f, err := wire.ParseFragment(body)
	if err != nil {
		return err
	}
	if f.Offset == 0 {
		t.whole, t.fragmentOf, t.firstPacket = t.whole[:0], i, seq
	}
	if f.Offset != len(t.whole) || i != t.fragmentOf {
		return fmt.Errorf("topic %d: fragment at %d after %d bytes", i, f.Offset, len(t.whole))
	}
	t.whole = append(t.whole, f.Bytes...)
	if len(t.whole) < f.Total {
		return nil
	}
	return t.message(now, t.firstPacket, seq, i, t.whole)
}

// message finds the writer of this message, by its oldest one.
func (t *truth) message(now reliable.Instant, first, last uint64, topic int, b []byte) error {
	for w := range t.written {
		k := t.pops[w]
		if k == len(t.written[w]) {
			continue
		}
		m := t.written[w][k]
		if m.topic != topic || m.size != len(b) || !t.content.matches(b, m.key) {
			continue
		}
		t.pops[w]++
		if t.pops[w] == len(t.written[w]) {
			t.written[w], t.pops[w] = t.written[w][:0], 0
		}
		m.at, m.first, m.last = now, first, last
		t.topics[topic].sent = append(t.topics[topic].sent, m)
		return nil
	}
	return fmt.Errorf("topic %d: message of %d bytes is no writer's next one", topic, len(b))
}

// unsent is how many messages were written and not sent yet.
func (t *truth) unsent() int {
	n := 0
	for w := range t.written {
		n += len(t.written[w]) - t.pops[w]
	}
	return n
}

// firstFrom is the number of topic's first message that lies wholly at or behind packet seq.
func (t *truth) firstFrom(topic int, seq uint64) uint64 {
	sent := t.topics[topic].sent
	lo, hi := 0, len(sent)
	for lo < hi {
		mid := (lo + hi) / 2
		if sent[mid].first < seq {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return uint64(lo)
}

// before is how many of topic's messages lie wholly before packet seq.
func (t *truth) before(topic int, seq uint64) uint64 {
	sent := t.topics[topic].sent
	lo, hi := 0, len(sent)
	for lo < hi {
		mid := (lo + hi) / 2
		if sent[mid].last < seq {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return uint64(lo)
}
