package sim

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// truth is everything that one publisher has passed to the network in one epoch, read from its packets.
type truth struct {
	events.Instance
	o           *Publisher
	content     *Content
	unpacker    wire.Unpacker
	next        uint64 // sequence of its next new packet
	sums        []uint32
	sentAt      []reliable.Instant // when each packet was first passed to the network
	lost        []uint64           // for each packet, the subscribers that lost its first transmission on all legs
	topics      []topicTruth       // in the order of topicNames
	plain       map[uint64]bool    // packets with topic or index runs
	messages    bool               // the newest packet has messages
	fragmentOf  int                // topic
	firstPacket uint64
	partial     []byte
	// Messages written but not yet sent, by writer.
	written [][]message
	pops    []int

	members       map[uint64]*member // subscribers that it has discovered
	killed, ended bool
	replies       map[uint64]map[uint64]*madeReply // replies to its requests, by message key and receiver
	trail         uint64                           // it has announced that it cannot repeat packets below this
}

type topicTruth struct {
	id    uint64
	named []uint64 // packets with its name
	sent  []message
}

// message is a written message.
type message struct {
	key         uint64 // key of its content
	size        int
	topic       int
	isRequest   bool             // it is a request
	at          reliable.Instant // first transmission of its last packet
	first, last uint64           // first and last packet
}

// content is the content of a message with a key: the writer in its first byte, if it is not empty,
// then a pattern of words, one in four new, so that it can be compressed.
type content struct {
	x, previous uint64
	words       int
}

// next returns the next word.
func (c *content) next() uint64 {
	w := c.x
	if c.words%4 > 0 {
		w = c.previous
	}
	c.words++
	c.x, c.previous = c.x*0x9e3779b97f4a7c15+1, w
	return w
}

// fill writes the content of the message with that key.
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

// matches reports whether b is the content of the message with that key.
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

func (s *sim) newTruth(of events.Instance, o *Publisher) *truth {
	t := &truth{
		Instance: of, o: o, content: s.o.Content, unpacker: s.unpacker,
		topics:  make([]topicTruth, o.Topics),
		written: make([][]message, o.Writers), pops: make([]int, o.Writers),
		members: make(map[uint64]*member), plain: make(map[uint64]bool),
		replies: make(map[uint64]map[uint64]*madeReply),
	}
	for i, id := range allTopicIDs[:o.Topics] {
		t.topics[i].id = id
	}
	return t
}

// write records that a writer has written m: it must be sent, in the writer's order.
func (t *truth) write(writer int, m message) { t.written[writer] = append(t.written[writer], m) }

// unwrite removes the writer's last message.
func (t *truth) unwrite(writer int) { t.written[writer] = t.written[writer][:len(t.written[writer])-1] }

// rewrite returns the writer's last message, to change it.
func (t *truth) rewrite(writer int) *message { return &t.written[writer][len(t.written[writer])-1] }

func (t *truth) topic(id uint64) int {
	for i := range t.topics {
		if t.topics[i].id == id {
			return i
		}
	}
	return -1
}

// sum returns a checksum of the parts of a packet that must be the same in all transmissions.
func sum(b []byte) uint32 {
	c := crc32.Update(0, castagnoli, b[:4])
	return crc32.Update(c, castagnoli, b[5:])
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sent processes a data packet when the publisher passes it to the network.
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
	case h.Instance() != t.Instance:
		return false, fmt.Errorf("packet of stream %d.%d sent by %d.%d", h.Publisher, h.Epoch, t.Publisher, t.Epoch)
	case repair != (d.Seq < t.next):
		return false, fmt.Errorf("packet %d sent, repair %v, but %d is next", d.Seq, repair, t.next)
	case repair && t.sums[d.Seq] != sum(b):
		return true, fmt.Errorf("repair of packet %d differs from the original", d.Seq) // docs/protocol §2.2, §26.6
	case repair:
		return true, nil
	case d.Seq != t.next:
		return false, fmt.Errorf("new packet %d sent, want %d", d.Seq, t.next)
	}
	t.next++
	t.messages = false
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
	t.messages = t.messages || r.Kind < wire.RunTopic
	if r.Kind == wire.RunState || r.Kind == wire.RunIndex {
		return nil
	}
	i := t.topic(r.Topic)
	if i < 0 {
		return fmt.Errorf("run of unknown topic %#x", r.Topic)
	}
	if want := uint64(len(t.topics[i].sent)); r.Number != want {
		return fmt.Errorf("topic %d: run begins with message %d, want %d", i, r.Number, want)
	}
	if r.Kind == wire.RunTopic {
		if string(r.Body) != topicNames[i] {
			return fmt.Errorf("topic %d: wrong name %q", i, r.Body)
		}
		t.topics[i].named = append(t.topics[i].named, seq)
		return nil
	}
	if len(t.topics[i].named) == 0 {
		return fmt.Errorf("topic %d: a message before the topic's name", i)
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
		t.partial, t.fragmentOf, t.firstPacket = t.partial[:0], i, seq
	}
	if f.Offset != len(t.partial) || i != t.fragmentOf {
		return fmt.Errorf("topic %d: fragment at %d after %d bytes", i, f.Offset, len(t.partial))
	}
	t.partial = append(t.partial, f.Bytes...)
	if len(t.partial) < f.Total {
		return nil
	}
	return t.message(now, t.firstPacket, seq, i, t.partial)
}

// message finds the writer of a message by its first unsent message.
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
	return fmt.Errorf("topic %d: message of %d bytes is not the next one of any writer", topic, len(b))
}

// unsent returns how many messages were written but not sent.
func (t *truth) unsent() int {
	n := 0
	for w := range t.written {
		n += len(t.written[w]) - t.pops[w]
	}
	return n
}

// firstFrom returns the number of topic's first message that is entirely in packets from seq on.
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

// before returns how many of topic's messages are entirely in packets before seq.
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

// handedOut records when packets of new data are first passed to the network.
func (t *truth) handedOut(now reliable.Instant, train *transport.Outbound) {
	for i := range train.Count {
		b := train.Data[i*train.Stride:][:train.Lens[i]]
		if wire.Type(b[3]) == wire.TypeData && wire.DataSeq(b) == uint64(len(t.sentAt)) {
			t.sentAt = append(t.sentAt, now)
		}
	}
}
