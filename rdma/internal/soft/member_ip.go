package soft

import "net/netip"

// ipShare is a share of a port's membership in an IP group: the interface is a member while there is at least one
// (kernel net/ipv4/igmp.c counts in the same way).
type ipShare struct {
	p  *port
	ip netip.Addr
}

func (s *ipShare) release() {
	p := s.p
	if p.ipGroups[s.ip]--; p.ipGroups[s.ip] > 0 {
		return
	}
	delete(p.ipGroups, s.ip)
	p.dev.backend.LeaveIP(p.num, s.ip)
}
