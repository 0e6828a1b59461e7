package peer

import (
	"encoding/binary"
	"errors"
)

type kind uint8

const (
	kindHello     kind = iota + 1 // asks for a challenge; of helloSize bytes
	kindChallenge                 // has the cookie for all that follows
	kindBusy                      // not now: there are too many sessions, or no bytes left
	kindEcho                      // asks for the clock
	kindEchoed                    // has it
	kindRun                       // asks for probes: Count of them, of Size bytes
	kindRan                       // says how many were sent
	kindAsk                       // asks for a report, of askSize bytes
	kindReport                    // has it, as JSON
	kindProbe                     // is counted
)

// row is a row of probes that are numbered from 0.
type row uint8

const (
	rowMulticast row = iota // by multicast, one by one
	rowUnicast              // by unicast, one by one
	rowTrain                // by multicast, in trains that the kernel cuts
	rowSize                 // by unicast, of all sizes
	rowWatch                // by multicast, one a second
	rowReply                // by unicast to a socket that has only sent to the group, as statuses and NAKs
	rows
	rowInfo row = 0xff // of kindAsk: no row, but what the listener knows of its host
)

// Sizes of packets, in bytes of UDP payload.
const (
	headerSize = 64
	helloSize  = 256
	askSize    = 512
	probeSize  = 512
	maxSize    = 65507
)

const magic = "FFDP\x01" // with the version

// packet is one of any kind. What a kind has no use for is zero. It is a header, its body, and padding. In a run of
// rowReply "sent" is the port of the asker that replies go to; in its answer "size" is that of the listener.
//
// Numbers are big-endian; times are nanoseconds since 1970 of the sender's clock.
type packet struct {
	Kind           kind
	Row            row
	FromListener   bool
	Session        uint64 // random, the asker's
	Cookie         uint64
	Number, Count  uint32
	Sent, Received int64 // of kindEcho: as the asker has sent it, and as the listener has got it
	Size           uint64
	Body           []byte // of kindReport
}

var errNotOurs = errors.New("no packet of fanfare doctor")

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
	b, _ = binary.Append(b, binary.BigEndian, &h) // it has only fixed sizes
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

// maxProbes is the most of one row. A tally has a bit for each.
const maxProbes = 4096

type Tally struct {
	Received   int    `json:"received"`   // different ones
	Duplicates int    `json:"duplicates"` // that had come before
	Reordered  int    `json:"reordered"`  // that came behind one with a higher number
	Merged     int    `json:"merged"`     // that came in one piece with others (GRO)
	Largest    int    `json:"largest"`    // payload in bytes
	TTL        int    `json:"ttl"`        // the lowest that one came with; 0: not known
	Latest     uint32 `json:"latest"`     // the highest number

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
	TTL    int  // 0: not known
	Merged bool // the kernel had merged it with others
}

// add counts a probe. Numbers beyond maxProbes are none of ours.
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
