// Package compression measures compression of messages: bytes on the wire, and time per message, in
// one goroutine and without a network.
package compression

import (
	"errors"
	"time"

	"github.com/fanfaremq/fanfare/bench"
	"github.com/fanfaremq/fanfare/internal/compress"
	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// gigabit is a link of 1 Gb/s, in bytes a second; around is the overhead of a packet on it: UDP,
// IPv4, Ethernet with preamble, checksum and gap.
const (
	gigabit = 125_000_000
	around  = 8 + 20 + 14 + 4 + 8 + 12
)

// Messages are consecutive messages of one topic.
type Messages struct {
	Topic string
	Data  []byte
}

// Measure publishes messages in packets of packetSize bytes, all full except the last, compressed according
// to spec with dict, which may be nil. The result has the figures of one contestant without a name.
func Measure(messages []Messages, packetSize int, spec compress.Spec, dict *compress.Dictionary) (*bench.Point, error) {
	raw, err := publish(messages, packetSize, nil, nil)
	if err != nil {
		return nil, err
	}
	x := raw
	if spec.Codec != wire.CodecNone {
		p, err := compress.New(spec, dict)
		if err != nil {
			return nil, err
		}
		for i := range passes { // other processes may use the processor meanwhile
			y, err := publish(messages, packetSize, p, nil)
			if err != nil {
				return nil, err
			}
			if i > 0 { // the first pass builds tables
				y.pack, y.unpack = min(y.pack, x.pack), min(y.unpack, x.unpack)
			}
			x = y
		}
	}
	n, dictionary := float64(max(1, len(messages))), 0.0
	if dict != nil {
		dictionary = float64(len(dict.Bytes))
	}
	return &bench.Point{Rows: []bench.Row{
		{Metric: "dictionary_bytes", Value: dictionary}, // 0: no dictionary
		{Metric: "messages", Value: float64(len(messages))},
		{Metric: "packets", Value: float64(x.packets)},
		{Metric: "packets_compressed", Value: float64(x.packed)},
		{Metric: "raw_bytes", Value: float64(raw.bytes)}, // data packets without compression
		{Metric: "wire_bytes", Value: float64(x.bytes)},  // and with compression
		{Metric: "ratio", Value: float64(x.bytes) / float64(max(1, raw.bytes))},
		{Metric: "pack_ns", Value: float64(x.pack) / n}, // time to compress a message
		{Metric: "unpack_ns", Value: float64(x.unpack) / n},
		{Metric: "link_msg_s", Value: x.link(n)}, // messages a second over a link of 1 Gb/s, including the overhead of UDP, IP and Ethernet
		{Metric: "link_raw_s", Value: raw.link(n)},
		{Metric: "link_ratio", Value: x.link(n) / raw.link(n)},
	}}, nil
}

// passes is the number of measurements, of which the shortest times count.
const passes = 4

// pass is one pass of the messages through the packets of a sender.
type pass struct {
	packets, packed, bytes uint64
	pack, unpack           time.Duration

	s      *reliable.Sender
	m      *topics.Sender
	p      topics.Packer
	take   func(runs []byte) // receives the uncompressed content of packets; nil: not needed
	train  transport.Outbound
	posted uint64
	plain  []byte
}

// link is the number of messages a second over a link of 1 Gb/s.
func (x *pass) link(messages float64) float64 {
	return messages * gigabit / float64(max(1, x.bytes+around*x.packets))
}

// publish sends messages without a subscriber, and decompresses the packets again.
func publish(messages []Messages, packetSize int, p topics.Packer, take func(runs []byte)) (*pass, error) {
	cfg := reliable.SenderConfig{
		Publisher: 1, Epoch: 1, PacketSize: packetSize, MaxTrain: 44, MaxTrainBytes: 65507, WindowPackets: 256,
		Flow: reliable.NoFlow{}, RepairShare: 0.5, Silence: time.Second, Packed: p != nil,
	}
	s, err := reliable.NewSender(cfg, make([]byte, cfg.Blocks()*cfg.BlockBytes()), 0)
	if err != nil {
		return nil, err
	}
	known := make(map[string]*topics.Topic)
	x := &pass{s: s, m: topics.NewSender(s, topics.NewEncoder(p, packetSize), nil), p: p, take: take}
	w, now := x.m.NewWriter(), reliable.Instant(0)
	s.Grant(w.Packets)
	for i := range messages {
		m := &messages[i]
		t := known[m.Topic]
		if t == nil {
			if t, err = x.m.Topic(m.Topic); err != nil {
				return nil, err
			}
			known[m.Topic] = t
		}
		for offset := 0; ; {
			if len(m.Data) <= x.m.MaxInPacket() {
				if w.Append(t, m.Data) {
					break
				}
			} else if next := w.AppendFragment(t, m.Data, offset, 0); next > offset {
				if offset = next; offset == len(m.Data) {
					break
				}
				continue
			}
			now += reliable.Instant(time.Millisecond)
			if err := x.send(now, w, false); err != nil {
				return nil, err
			}
			if !s.Grant(w.Packets) {
				return nil, errors.New("no packet memory")
			}
		}
	}
	return x, x.send(now, w, true)
}

// send processes the packets that the writer has filled.
func (x *pass) send(now reliable.Instant, w *topics.Writer, all bool) error {
	began := time.Now()
	x.m.Assign(now, w, all)
	x.pack += time.Since(began)
	for x.s.Next(now, &x.train) {
		t := &x.train
		began := time.Now()
		for i := range t.Count {
			b := t.Data[i*t.Stride:][:t.Lens[i]]
			if wire.Type(b[3]) != wire.TypeData {
				continue
			}
			x.packets++
			x.bytes += uint64(len(b))
			if wire.CodecOf(b) == wire.CodecNone {
				if x.take != nil {
					x.take(b[wire.DataHeaderLen:])
				}
				continue
			}
			x.packed++
			var err error
			if x.plain, err = wire.Unpack(x.p, x.plain, b); err != nil {
				return err
			}
		}
		x.unpack += time.Since(began)
		x.posted += uint64(t.Count)
		x.s.Sent(now, t.Count, x.posted)
	}
	return nil
}

// Train makes a dictionary of at most size bytes, from samples of two packets each, as they are compressed.
func Train(messages []Messages, packetSize, size int) (*compress.Dictionary, error) {
	var samples [][]byte
	packets := 0
	_, err := publish(messages, packetSize, nil, func(runs []byte) {
		if packets++; packets%2 == 1 {
			samples = append(samples, nil)
		}
		last := &samples[len(samples)-1]
		*last = append(*last, runs...)
	})
	if err != nil {
		return nil, err
	}
	return compress.Train(samples, size)
}
