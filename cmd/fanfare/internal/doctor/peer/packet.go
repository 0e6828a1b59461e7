package peer

import (
	"encoding/binary"
	"errors"
)

type kind uint8

const (
	kindHello     kind = iota + 1 // requests a challenge; helloSize bytes
	kindChallenge                 // contains the cookie for all later packets
	kindBusy                      // refuses: too many sessions, or the byte budget is used up
	kindEcho                      // requests the clock
	kindEchoed                    // contains the clock
	kindRun                       // requests Count probes of Size bytes
	kindRan                       // contains the number of probes sent
	kindRequest                   // requests a report; requestSize bytes
	kindReport                    // contains the report as JSON
	kindProbe                     // a probe to be counted
)

// row is a kind of probes, each numbered from 0.
type row uint8

const (
	rowMulticast row = iota // multicast, one by one
	rowUnicast              // unicast, one by one
	rowTrain                // multicast, in trains split by the kernel
	rowSize                 // unicast, of several sizes
	rowWatch                // multicast, one a second
	rowReply                // unicast to a socket that has sent only to the group, like statuses and NAKs
	rows
	rowInfo row = 0xff // with kindRequest: requests the listener's Info instead of a tally
)

// Sizes of packets, in bytes of UDP payload.
const (
	headerSize  = 64
	helloSize   = 256
	requestSize = 512
	probeSize   = 512
	maxSize     = 65507
)

const magic = "FFDP\x01" // includes the version

// packet is a packet of any kind: a header, a body and padding. Fields that a kind does not use are zero. In
// a run of rowReply Sent is the client's port for the probes; in its answer Size is the listener's.
//
// Numbers are big-endian; times are nanoseconds since 1970 by the sender's clock.
type packet struct {
	Kind           kind
	Row            row
	FromListener   bool
	Session        uint64 // random, chosen by the client
	Cookie         uint64
	Number, Count  uint32
	Sent, Received int64 // of kindEcho: when the client sent it, and when the listener received it
	Size           uint64
	Body           []byte // of kindReport
}

var errNotOurs = errors.New("not a packet of fanfare doctor")

type header struct {
	Magic          [len(magic)]byte
	Kind           kind
	Row            row
	FromListener   bool
	Session        uint64
	Cookie         uint64
	Number, Count  uint32
	Sent, Received int64
	Size, Body     uint64
}

func (p *packet) append(b []byte, size int) []byte {
	h := header{[len(magic)]byte([]byte(magic)), p.Kind, p.Row, p.FromListener, p.Session, p.Cookie,
		p.Number, p.Count, p.Sent, p.Received, p.Size, uint64(len(p.Body))}
	start := len(b)
	b, _ = binary.Append(b, binary.BigEndian, &h) // cannot fail: all fields have fixed sizes
	b = append(b, p.Body...)
	return append(b, make([]byte, max(0, size-(len(b)-start)))...)
}

func parse(b []byte) (p packet, err error) {
	var h header
	if _, err := binary.Decode(b, binary.BigEndian, &h); err != nil || string(h.Magic[:]) != magic || b[7] > 1 {
		return p, errNotOurs
	}
	if h.Kind < kindHello || h.Kind > kindProbe || h.Row >= rows && h.Row != rowInfo ||
		h.Body > uint64(len(b)-headerSize) {
		return p, errNotOurs
	}
	p = packet{h.Kind, h.Row, h.FromListener, h.Session, h.Cookie, h.Number, h.Count, h.Sent, h.Received, h.Size, nil}
	if h.Body > 0 {
		p.Body = b[headerSize:][:h.Body]
	}
	return p, nil
}

// maxProbes bounds the probes of a row. A tally has one bit for each.
const maxProbes = 4096

type Tally struct {
	Received   int    `json:"received"`   // distinct probes
	Duplicates int    `json:"duplicates"` // probes received before
	Reordered  int    `json:"reordered"`  // received after a probe with a higher number
	Merged     int    `json:"merged"`     // received merged with others (GRO)
	Largest    int    `json:"largest"`    // payload in bytes
	TTL        int    `json:"ttl"`        // the lowest received; 0: unknown
	Latest     uint32 `json:"latest"`     // the highest number received

	seen [maxProbes / 64]uint64
}

func (t Tally) clean() Tally {
	for _, n := range []*int{&t.Received, &t.Duplicates, &t.Reordered, &t.Merged} {
		*n = min(max(*n, 0), maxProbes)
	}
	t.Largest, t.TTL = min(max(t.Largest, 0), maxSize), min(max(t.TTL, 0), 255)
	return t
}

type arrival struct {
	Size   int  // payload in bytes
	TTL    int  // 0: unknown
	Merged bool // the kernel had merged it with others
}

// add counts a probe. It ignores numbers from maxProbes on.
func (t *Tally) add(number uint32, a arrival) {
	if number >= maxProbes {
		return
	}
	if a.TTL > 0 && (t.TTL == 0 || a.TTL < t.TTL) {
		t.TTL = a.TTL
	}
	t.Largest = max(t.Largest, a.Size)
	word, bit := number/64, uint64(1)<<(number%64)
	if t.seen[word]&bit != 0 {
		t.Duplicates++
		return
	}
	if t.Received > 0 && number < t.Latest {
		t.Reordered++
	}
	t.seen[word] |= bit
	t.Received++
	t.Latest = max(t.Latest, number)
	if a.Merged {
		t.Merged++
	}
}
