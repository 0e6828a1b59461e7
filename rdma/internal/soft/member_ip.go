package soft

import "net/netip"

// ipShare is a share in an IP group: the interface is its member as long as
// there is one (kernel net/ipv4/igmp.c counts likewise).
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
