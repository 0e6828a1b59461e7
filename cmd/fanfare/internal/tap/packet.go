// Package tap analyses the packets of a fabric passively. It receives them from sockets that have joined
// its groups, from a capture file or from a network interface (Source), and finds what operators ask for
// (Observer): streams, gaps and their repair, NAK storms, duplicates, foreign and damaged packets.
//
// Nothing here sends. Memory is bounded for any input.
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

// Packet is a packet from a Source. Data is valid until the Source's next.
type Packet struct {
	Time     time.Time
	From, To string // addresses, as text
	Address  string // the group address; empty for packets to one bus
	Data     []byte
	Err      error // why the fabric's own headers cannot be read; Data is then incomplete

	// Sealed is set for sealed packets; Data is then the packet inside, if it could be opened. Set by
	// Observer.Locate or Observe.
	Sealed *Sealed
	// Signed is set for signed packets; Data is then the packet after the signature. Set like Sealed.
	Signed *Signed

	Read        dissect.Packet // set by Observer.Observe
	Runs        []byte         // of a data packet, likewise; none if compressed and unreadable
	missingDict uint32         // the missing dictionary; 0: none
	size        int            // on the wire, if Data is shorter; 0: that of Data
	group       Group
	known       bool // group is known
}

// Sealed is the header of a sealed packet, and the error of opening it.
type Sealed struct {
	wire.SealedHeader
	Err error // nil: it was opened
}

// Signed is the signature of a packet, which is not verified here, and the error of parsing it.
type Signed struct {
	wire.Signed       // its slices are valid as long as Packet.Data
	Err         error // nil: it was parsed
}

// Key is the key id in the packet. docs/protocol §29.1.
func (s *Signed) Key() uint32 {
	of, _ := wire.Stream(s.Packet)
	return uint32(of.Publisher >> 32)
}

// Unsealer opens sealed packets (package transport/sealed). Its result is valid until the next call.
type Unsealer interface {
	// Open takes the packet and the index of its group, negative if unknown.
	Open(p []byte, index int64) ([]byte, error)
}

func (p *Packet) Bytes() int { return cmp.Or(p.size, len(p.Data)) }

func (p *Packet) Group() (Group, bool) { return p.group, p.known }

// header parses the part that all versions have in common; ok is false if it is not a packet.
func (p *Packet) header() (h wire.Header, ok bool) {
	_, h, err := wire.ParseKept(p.Data)
	return h, err == nil && p.Err == nil
}

type Source interface {
	// Next waits for the next packet. It returns io.EOF at the end of a file, and an error after Interrupt.
	Next() (*Packet, error)
	// Interrupt makes Next return. It is safe for concurrent use.
	Interrupt()
	Lost() uint64
	Skipped() map[string]uint64
	Close() error
}

func (o *Observer) Dictionaries(dicts []*compress.Dictionary) {
	o.unpacker = compress.NewUnpacker(dicts)
}

// read parses a packet, and returns the runs of a data packet, decompressed if possible, which are
// valid until the next call. If a dictionary is missing it returns its hash, otherwise 0.
func (o *Observer) read(b []byte) (p dissect.Packet, runs []byte, missingDict uint32) {
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
	if p.missingDict == 0 {
		return
	}
	if !repair {
		s.Unread++
	}
	name := fmt.Sprintf("%08x", p.missingDict) // in the format of fanfare dict
	if n := o.MissingDicts[name]; n > 0 || len(o.MissingDicts) < maxDictionaries {
		o.MissingDicts[name]++
	}
	if s.missingDict != p.missingDict {
		s.missingDict = p.missingDict
		o.report(p, s, KindDictionary, 0, 0, "packets are compressed with dictionary %s: add -dict FILE to show their content and count their messages", name)
	}
}

type Group struct {
	Index   int
	Address string // as text: docs/protocol §16.3, §17.3
}

// Groups are the groups of a fabric. docs/protocol §3.2, §16.1, §17.2.
type Groups struct {
	port      uint16 // UDP port; 0: none
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

// GroupsFrom returns n groups from an address on, for UDP and RDMA.
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

func udAddress(a netip.Addr) string { return "ud:" + a.Unmap().String() }

func (x Group) String() string { return "group " + strconv.Itoa(x.Index) + " (" + x.Address + ")" }
