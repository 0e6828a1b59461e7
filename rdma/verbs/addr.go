//go:build rdma && linux && cgo

package verbs

import (
	"net/netip"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/verbs/internal/cverbs"
)

// cAddr converts an address to C. An invalid one stays invalid: its family is passed on, so that librdmacm rejects it.
func cAddr(a rdma.Addr) cverbs.Addr {
	c := cverbs.Addr{Family: uint16(a.Family), Port: a.Port, Flow: a.FlowInfo, Scope: a.ScopeID}
	switch {
	case a.Size() == 0 && (a.Family == rdma.FamilyIPv4 || a.Family == rdma.FamilyIPv6):
		return cverbs.Addr{} // no IP address of the family: as if there were no address
	case a.Family == rdma.FamilyIPv4:
		ip := a.IP.As4()
		copy(c.IP[:], ip[:])
	case a.Family == rdma.FamilyIPv6:
		c.IP = a.IP.As16()
	case a.Family == rdma.FamilyIB:
		c.IP = a.GID
	}
	return c
}

func goAddr(c cverbs.Addr) rdma.Addr {
	a := rdma.Addr{Family: rdma.Family(c.Family), Port: c.Port, FlowInfo: c.Flow, ScopeID: c.Scope}
	switch a.Family {
	case rdma.FamilyIPv4:
		a.IP = netip.AddrFrom4([4]byte(c.IP[:4]))
	case rdma.FamilyIPv6:
		a.IP = netip.AddrFrom16(c.IP)
	case rdma.FamilyIB:
		a.GID = c.IP
	}
	return a
}
