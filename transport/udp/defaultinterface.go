package udp

import "net/netip"

// Choice is the interface that a transport uses if Config.Interface is empty.
type Choice struct {
	Name string
	Addr netip.Addr // source address of packets
	// Loopback: the route leads to loopback, or there is no other interface, so only programs on this host can be reached.
	Loopback bool
	// Routed: it is the interface of the host's route to the groups. Otherwise it is the first interface that is up, has
	// an address and supports multicast.
	Routed bool
	// RouteTo is the interface of that route, even if it does not support multicast; empty if there is no route.
	RouteTo string
}

// DefaultInterface is the interface that Open currently uses for cfg without Config.Interface. If there is none it
// returns the error that Open would.
func DefaultInterface(cfg Config) (Choice, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return Choice{}, err
	}
	l, to, err := defaultLink(netip.AddrPortFrom(cfg.Range.Addr(), uint16(cfg.Port)), cfg.Range.Addr().Is4())
	if err != nil {
		return Choice{}, err
	}
	return Choice{Name: l.name, Addr: l.addr, Loopback: l.loopback, Routed: to == l.name, RouteTo: to}, nil
}
