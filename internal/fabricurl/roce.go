package fabricurl

import (
	"net/netip"
	"net/url"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/rdma/roce"
	"github.com/fanfaremq/fanfare/transport/rocenet"
)

// openRoCE opens RoCEv2 over sockets on an interface, or on the interface with an address.
func openRoCE(u *url.URL) (*Host, error) {
	c, err := rocenet.ParseDevice(u)
	if err != nil {
		return nil, &Error{Err: err}
	}
	cfg := roce.Config{Check: c.Check}
	name := c.Interface
	if name != "" {
		link, err := sys.FindInterface(name)
		if err != nil {
			return nil, err
		}
		cfg.Interfaces = []string{link.Name}
		if a, err := netip.ParseAddr(name); err == nil {
			cfg.Addrs = []netip.Addr{a.Unmap()}
			name = link.Name
		}
	}
	p, err := roce.Open(cfg)
	if err != nil {
		return nil, err
	}
	h, err := find(p, name)
	if err != nil {
		p.Close()
		return nil, err
	}
	h.close = func() { p.Close() }
	return h, nil
}
