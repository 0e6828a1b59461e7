// Package compression measures what compression makes of messages: bytes on the wire, and
// time for each message, in one goroutine and without a network.
package compression

import (
	"fmt"
	"time"

	"github.com/fanfaremq/fanfare/internal/compress"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// Result is what one way to compress made of the messages.
type Result struct {
	Compression string  `json:"compression"`
	Dictionary  int     `json:"dictionary_bytes"` // 0: none
	Messages    int     `json:"messages"`
	Packets     uint64  `json:"packets"`
	RawBytes    uint64  `json:"raw_bytes"`  // data packets without compression
	WireBytes   uint64  `json:"wire_bytes"` // and with it
	Ratio       float64 `json:"ratio"`      // of WireBytes to RawBytes
	Pack        float64 `json:"pack_ns"`    // time to compress, a message
	Unpack      float64 `json:"unpack_ns"`  // time to decompress, a message
	Link        float64 `json:"link_msg_s"` // messages a second that a link of 1 Gb/s carries, with what UDP, IP and Ethernet add
	RawLink     float64 `json:"link_raw_s"` // and without compression
	Times       float64 `json:"link_ratio"` // of Link to RawLink
	Packed      uint64  `json:"packets_compressed"`
}

// gigabit is a link of 1 Gb/s, in bytes a second, and around what goes over it beside each packet:
// UDP, IPv4, Ethernet with its preamble, check and gap.
const (
	gigabit = 125_000_000
	around  = 8 + 20 + 14 + 4 + 8 + 12
)

// Messages are messages of one topic, as they are published one after the other.
type Messages struct {
	Topic string
	Data  []byte
}

// Measure publishes messages in packets of packetSize bytes, full ones but for the last, compressed as
// spec says with dict, which may be nil.
func Measure(messages []Messages, packetSize int, spec compress.Spec, dict *compress.Dictionary) (Result, error) {
	raw, err := publish(messages, packetSize, nil)
	if err != nil {
		return Result{}, err
	}
	r := Result{Compression: spec.String(), Messages: len(messages), RawBytes: raw.bytes}
	if dict != nil {
		r.Dictionary = len(dict.Bytes)
	}
	x := raw
	if spec.Codec != wire.CodecNone {
		p, err := compress.New(spec, dict)
		if err != nil {
			return r, err
		}
		for pass := range passes { // others may take the processor meanwhile
			y, err := publish(messages, packetSize, p)
			if err != nil {
				return r, err
			}
			if pass > 0 { // in the first tables come into being
				y.pack, y.unpack = min(y.pack, x.pack), min(y.unpack, x.unpack)
			}
			x = y
		}
	}
	r.Packets, r.Packed, r.WireBytes, r.Ratio = x.packets, x.packed, x.bytes, float64(x.bytes)/float64(max(1, raw.bytes))
	n := float64(max(1, len(messages)))
	r.Pack, r.Unpack = float64(x.pack)/n, float64(x.unpack)/n
	r.Link, r.RawLink = x.link(n), raw.link(n)
	r.Times = r.Link / r.RawLink
	return r, nil
}

// passes is how often is measured: the shortest times count.
const passes = 4

// published is what became of the messages.
type published struct {
	packets, packed, bytes uint64
	pack, unpack           time.Duration
}

// link is how many messages a second a link of 1 Gb/s carries.
func (x *published) link(messages float64) float64 {
	return messages * gigabit / float64(max(1, x.bytes+around*x.packets))
}

// publish sends messages to nobody, and reads the packets again.
func publish(messages []Messages, packetSize int, p *compress.Packer) (x published, err error) {
	cfg := reliable.SenderConfig{
		Publisher: 1, Epoch: 1, PacketSize: packetSize, MaxTrain: 44, MaxTrainBytes: 65507, WindowPackets: 256,
		Flow: reliable.NoFlow{}, RepairShare: 0.5, Silence: time.Second,
	}
	if p != nil {
		cfg.Packer = p
	}
	s, err := reliable.NewSender(cfg, make([]byte, cfg.Blocks()*cfg.BlockBytes()), 0)
	if err != nil {
		return x, err
	}
	topics := make(map[string]*reliable.Topic)
	w, now := s.NewWriter(), reliable.Instant(0)
	s.Grant(w)
	y := &wayOut{s: s, p: p, published: &x}
	for i := range messages {
		m := &messages[i]
		t := topics[m.Topic]
		if t == nil {
			if t, err = s.Topic(m.Topic); err != nil {
				return x, err
			}
			topics[m.Topic] = t
		}
		for offset := 0; ; {
			if len(m.Data) <= s.MaxInPacket() {
				if w.Append(t, m.Data) {
					break
				}
			} else if next := w.AppendFragment(t, m.Data, offset); next > offset {
				if offset = next; offset == len(m.Data) {
					break
				}
				continue
			}
			now += reliable.Instant(time.Millisecond)
			if err := y.send(now, w, false); err != nil {
				return x, err
			}
			if !s.Grant(w) {
				return x, fmt.Errorf("no packet memory")
			}
		}
	}
	return x, y.send(now, w, true)
}

// wayOut takes the packets.
type wayOut struct {
	*published
	s      *reliable.Sender
	p      *compress.Packer
	train  transport.Outbound
	posted uint64
	plain  []byte
}

func (y *wayOut) send(now reliable.Instant, w *reliable.Writer, all bool) error {
	began := time.Now()
	y.s.Assign(now, w, all)
	y.pack += time.Since(began)
	for y.s.Next(now, &y.train) {
		t := &y.train
		began := time.Now()
		for i := range t.Count {
			b := t.Data[i*t.Stride:][:t.Lens[i]]
			if wire.Type(b[3]) != wire.TypeData {
				continue
			}
			y.packets++
			y.bytes += uint64(len(b))
			if wire.CodecOf(b) == wire.CodecNone {
				continue
			}
			y.packed++
			var err error
			if y.plain, err = wire.Unpack(y.p, y.plain, b); err != nil {
				return err
			}
		}
		y.unpack += time.Since(began)
		y.posted += uint64(t.Count)
		y.s.Sent(now, t.Count, y.posted)
	}
	return nil
}

// Samples are messages as they are compressed, two packets of them each: what to train a
// dictionary from.
func Samples(messages []Messages, packetSize int) (samples [][]byte) {
	var sample []byte // runs
	run, topic := -1, ""
	end := func() {
		if run >= 0 {
			wire.SetRunLength(sample[run:], len(sample)-run-wire.RunHeaderLen)
		}
		run = -1
	}
	numbers := make(map[string]uint64)
	for i := range messages {
		m := &messages[i]
		data := m.Data[:min(len(m.Data), wire.MaxInPacket(packetSize))]
		if run < 0 || topic != m.Topic || len(sample)+wire.MessageHeaderLen+len(data) > 2*packetSize {
			if end(); len(sample)+wire.RunHeaderLen+wire.MessageHeaderLen+len(data) > 2*packetSize {
				samples, sample = append(samples, sample), nil
			}
			topic, run = m.Topic, len(sample)
			sample = append(sample, make([]byte, wire.RunHeaderLen)...)
			wire.PutRunHeader(sample[run:], wire.RunMessages, 0, wire.TopicID(topic), numbers[topic])
		}
		sample = append(sample, byte(len(data)), byte(len(data)>>8))
		sample = append(sample, data...)
		numbers[topic]++
	}
	end()
	if len(sample) > 0 {
		samples = append(samples, sample)
	}
	return samples
}
