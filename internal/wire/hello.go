package wire

import "encoding/binary"

// Hello, after the common header:
//
//	+-------------------------------+-------+-------+---------------+
//	|            groups             |mapping|checks.|  packet size  |  32
//	+-------------------------------+-------+-------+---------------+
//	|            topics             | bits  |namelen|map parameter  |  40
//	+-------------------------------+-------+-------+---------------+
//	| name, filled up with zeros ...                                |  48
//	+---------------------------------------------------------------+
//	| topic filter ...                                              | 112
//	+---------------------------------------------------------------+
//
// Bit 1 marks an answer: then topics and filter are those that its sender subscribes to, otherwise those that it
// publishes. Bit 2: its sender waits for subscribers. All hellos have the same length, so that an answer is never
// longer than its hello.
//
// Every version keeps this layout, up to HelloLen: by hellos buses of different versions detect each other.
const (
	HelloLen = 176

	helloAnswer = 1 << 0
	helloWaits  = 1 << 1
)

// Hello has the identity and the configuration of a bus.
type Hello struct {
	Settings
	PacketSize int    // of the bus's streams, in bytes
	Topics     uint32 // number of topics that it publishes, or, in an answer, subscribes to
	Answer     bool   // it answers a hello
	Waits      bool   // its bus waits for subscribers
	Filter     TopicFilter
	// Name is the name of the bus, for people to read; see CleanName. It points into the packet.
	Name []byte
}

// AppendHello appends the packet to b. A name is truncated to MaxName bytes.
func AppendHello(b []byte, h Header, x *Hello) []byte {
	h.Type = TypeHello
	b, p := extend(b, HelloLen)
	h.Put(p)
	binary.LittleEndian.PutUint32(p[32:], x.Groups)
	p[36], p[37] = byte(x.Mapping.Kind), byte(x.Checksum)
	binary.LittleEndian.PutUint16(p[38:], uint16(x.PacketSize))
	binary.LittleEndian.PutUint32(p[40:], x.Topics)
	if x.Answer {
		p[44] |= helloAnswer
	}
	if x.Waits {
		p[44] |= helloWaits
	}
	p[45] = byte(copy(p[48:48+MaxName], x.Name))
	binary.LittleEndian.PutUint16(p[46:], x.Mapping.Param)
	copy(p[112:HelloLen], x.Filter[:])
	return b
}

// ParseHello parses the hello b, of any version, after ParseHeader. docs/protocol §13.3.
func ParseHello(b []byte) (Hello, error) {
	if len(b) < HelloLen {
		return Hello{}, ErrShort
	}
	n := int(b[45])
	if n > MaxName {
		return Hello{}, ErrMalformed
	}
	return Hello{
		Settings: Settings{
			Groups:   binary.LittleEndian.Uint32(b[32:]),
			Mapping:  Mapping{MappingKind(b[36]), binary.LittleEndian.Uint16(b[46:])},
			Checksum: Checksum(b[37]),
		},
		PacketSize: int(binary.LittleEndian.Uint16(b[38:])),
		Topics:     binary.LittleEndian.Uint32(b[40:]),
		Answer:     b[44]&helloAnswer != 0,
		Waits:      b[44]&helloWaits != 0,
		Name:       b[48 : 48+n : 48+n],
		Filter:     TopicFilter(b[112:HelloLen]),
	}, nil
}

// TopicFilter is a set of topic ids: a Bloom filter of 512 bits, three for each topic. With 50 topics one other topic
// in 64 is a false positive, with 200 one in three. docs/protocol §2.17.
type TopicFilter [64]byte

// Add adds a topic.
func (f *TopicFilter) Add(topic uint64) {
	for i := range uint64(3) {
		bit := topic >> (20 * i) & 511
		f[bit>>3] |= 1 << (bit & 7)
	}
}

// AnyTopic returns the set of all topics, for a bus that subscribes to a pattern.
func AnyTopic() TopicFilter {
	var f TopicFilter
	for i := range f {
		f[i] = 0xff
	}
	return f
}

// May reports whether a topic may be in the set; false is certain.
func (f *TopicFilter) May(topic uint64) bool {
	for i := range uint64(3) {
		bit := topic >> (20 * i) & 511
		if f[bit>>3]&(1<<(bit&7)) == 0 {
			return false
		}
	}
	return true
}
