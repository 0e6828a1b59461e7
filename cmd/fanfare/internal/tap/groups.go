// Package tap looks at the packets of a fabric without taking part in it: it takes them from
// sockets that have joined its groups, from a capture file or from a network interface
// (Source), and finds in them what an operator asks about (Observer): streams, gaps and
// their repair, NAK storms, duplicates, foreign and damaged packets.
//
// Nothing here sends. Memory is bounded, whatever comes.
package tap

import (
	"net/netip"
	"strconv"

	"github.com/fanfaremq/fanfare/internal/wire"
)

type Group struct {
	Index   int
	Address string // its text: docs/protocol.md §16.3, §17.3
}

// Groups are the groups of a fabric. docs/protocol.md §3.2, §16.1, §17.2.
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
