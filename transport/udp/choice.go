package udp

import "net/netip"

// Choice is the interface that a transport takes where Config.Interface is empty.
type Choice struct {
	Name string
	Addr netip.Addr // of what is sent
	// Loopback: there is no other interface, or the route leads there, and only programs of this host can be reached.
	Loopback bool
	// Routed: the host's route to the groups leads there. Otherwise it is the first
	// interface that is up with an address and does multicast.
	Routed bool
	// RouteTo is where that route leads, also if that is none for multicast; empty if there is none.
	RouteTo string
}

// DefaultInterface is the interface that Open currently takes for cfg without Config.Interface. It
// fails where Open does because there is none.
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
