// Package tap looks at the packets of a fabric without taking part in it: it takes them from sockets that have joined
// its groups, from a capture file or from a network interface (Source), and finds in them what an operator asks about
// (Observer): streams, gaps and their repair, NAK storms, duplicates, foreign and damaged packets.
//
// Nothing here sends. Memory is bounded, whatever comes.
package tap

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/fanfaremq/fanfare/internal/compress"
	"github.com/fanfaremq/fanfare/internal/dissect"
	"github.com/fanfaremq/fanfare/internal/wire"
)

// Packet is what a Source has taken from the wire. Data is valid until the Source's next.
type Packet struct {
	Time     time.Time
	From, To string // addresses, as text
	Address  string // the text of the group that it was sent to; empty if it was sent to one bus
	Data     []byte
	Err      error // why the fabric's own headers cannot be read; then Data is what there is

	// Sealed is what a sealed packet shows, and nil of others; Data is what was inside, as far as it
	// could be opened. By Observer.Locate, or Observe.
	Sealed *Sealed
	// Signed is what stands before a signed packet, and nil of others; Data is the packet behind it. Likewise.
	Signed *Signed

	Read  dissect.Packet // by Observer.Observe
	Runs  []byte         // of a data packet, likewise; none where they are compressed and cannot be read
	lacks uint32         // the dictionary that it takes to read it, and that is not given; 0: none
	size  int            // on the wire, once something was taken off; 0: that of Data
	group Group
	known bool // group is
}

// Sealed is the header of a sealed packet, and why it could not be opened.
type Sealed struct {
	wire.SealedHeader
	Err error // nil: it was
}

// Signed is what a packet says of its signature, which is not verified here, and why it cannot be read.
type Signed struct {
	wire.Signed       // its slices are valid as long as Packet.Data
	Err         error // nil: it can
}

// Key is the id of the key that the packet says it is signed with. docs/protocol §29.1.
func (s *Signed) Key() uint32 {
	publisher, _, _ := wire.Stream(s.Packet)
	return uint32(publisher >> 32)
}

// Unsealer opens sealed packets (package transport/sealed). What it returns is valid until the next call.
type Unsealer interface {
	// Open gets the packet and the number of its group, negative where that is not known.
	Open(p []byte, index int64) ([]byte, error)
}

func (p *Packet) Bytes() int { return cmp.Or(p.size, len(p.Data)) }

// Group is the group that the packet belongs to by its tag, or that it was sent to.
func (p *Packet) Group() (Group, bool) { return p.group, p.known }

// header is the part that all versions keep; ok is false for what is no packet of any.
func (p *Packet) header() (h wire.Header, ok bool) {
	_, h, err := wire.ParseKept(p.Data)
	return h, err == nil && p.Err == nil
}

type Source interface {
	// Next waits for the next packet. It ends with io.EOF at the end of a file, and with an error after Interrupt.
	Next() (*Packet, error)
	// Interrupt makes Next return. It may be called by any goroutine.
	Interrupt()
	Lost() uint64
	Skipped() map[string]uint64
	Close() error
}

func (o *Observer) Dictionaries(dicts []*compress.Dictionary) {
	o.unpacker = compress.NewUnpacker(dicts)
}

// read takes a packet apart, and returns the runs of a data packet. Where they are compressed
// and can be read they take the place of what is compressed; that lasts until the next call.
// Where a dictionary is missing its hash is returned, 0 otherwise.
func (o *Observer) read(b []byte) (p dissect.Packet, runs []byte, lacks uint32) {
	p = dissect.Read(b)
	if p.Type != wire.TypeData || p.Err != nil {
		return p, nil, 0
	}
	if wire.CodecOf(b) == wire.CodecNone {
		return p, b[wire.DataHeaderLen:], 0
	}
	plain, err := wire.Unpack(o.unpacker, o.plain, b)
	if errors.Is(err, wire.ErrDictionary) {
		x, _ := wire.ParsePacked(b)
		return p, nil, x.Dict
	}
	if err != nil {
		p.Err = wire.ErrMalformed
		return p, nil, 0
	}
	o.plain = plain
	for _, f := range dissect.Read(plain).Fields {
		if f.Field.Name == "runs" {
			p.Fields[len(p.Fields)-1] = f
		}
	}
	return p, plain[wire.DataHeaderLen:], 0
}

func (o *Observer) unread(s *Stream, p *Packet, repair bool) {
	if p.lacks == 0 {
		return
	}
	if !repair {
		s.Unread++
	}
	name := fmt.Sprintf("%08x", p.lacks) // as fanfare dict shows it
	if n := o.Lacking[name]; n > 0 || len(o.Lacking) < maxDictionaries {
		o.Lacking[name]++
	}
	if s.lacks != p.lacks {
		s.lacks = p.lacks
		o.report(p, s, KindDictionary, 0, 0, "packets are compressed with dictionary %s: give it with -dict FILE, or what is in them is not shown, and their messages not counted", name)
	}
}

type Group struct {
	Index   int
	Address string // its text: docs/protocol §16.3, §17.3
}

// Groups are the groups of a fabric. docs/protocol §3.2, §16.1, §17.2.
type Groups struct {
	port      uint16 // of UDP; 0: there is none
	byTag     map[uint32]Group
	byAddress map[string]Group
}

func NewGroups(addresses []string) *Groups {
	g := &Groups{byTag: make(map[uint32]Group), byAddress: make(map[string]Group)}
	for i, a := range addresses {
		g.add(Group{i, a})
	}
	return g
}

// GroupsFrom are n groups from an address on, of UDP and of RDMA.
func GroupsFrom(first netip.AddrPort, n int) *Groups {
	g := NewGroups(nil)
	g.port = first.Port()
	a := first.Addr()
	for i := range n {
		if g.port != 0 {
			g.add(Group{i, netip.AddrPortFrom(a, g.port).String()})
		}
		g.add(Group{i, udAddress(a)})
		a = a.Next()
	}
	return g
}

func (g *Groups) add(x Group) {
	g.byTag[wire.GroupTag(x.Address)] = x
	g.byAddress[x.Address] = x
}

// udAddress is the text of a group's address on RDMA.
func udAddress(a netip.Addr) string { return "ud:" + a.Unmap().String() }

func (x Group) String() string { return "group " + strconv.Itoa(x.Index) + " (" + x.Address + ")" }
