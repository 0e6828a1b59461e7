package fabricurl

import (
	"net/url"

	"github.com/fanfaremq/fanfare/rdma/fabric"
	"github.com/fanfaremq/fanfare/transport/simnet"
)

// openSim attaches two hosts to the live subnet with the name, which exists from its first host to its last (package
// simnet, also for the options).
func openSim(u *url.URL) (*Host, error) {
	cfg, err := simnet.ParseSubnet(u)
	if err != nil {
		return nil, &Error{Err: err}
	}
	subnet, a, err := simnet.Attach(cfg)
	if err != nil {
		return nil, &Error{Err: err}
	}
	_, b, err := simnet.Attach(cfg)
	if err != nil {
		subnet.Detach(a)
		return nil, &Error{Err: err}
	}
	host := func(h *fabric.Host) *Host {
		return &Host{Provider: h, Device: "sim0", Port: 1, Addr: h.Addr()}
	}
	h := host(a)
	h.Peer = host(b)
	h.close = func() {
		subnet.Detach(b)
		subnet.Detach(a)
	}
	return h, nil
}
