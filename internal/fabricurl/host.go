package fabricurl

import "github.com/fanfaremq/fanfare/rdma"

// Host gives access to the RDMA devices of a host.
type Host struct {
	rdma.Provider
	// Device and Port are those of the URL. Ports count from 1.
	Device string
	Port   uint8
	// Addr is the port's address, for rdma.ID.Bind.
	Addr rdma.Addr
	// Peer is another host of the same subnet; nil unless it is simulated.
	Peer *Host

	close func()
}

// Close closes what OpenHost opened. Objects made from the provider must be closed before. A second call has no effect.
func (h *Host) Close() {
	if h.close != nil {
		h.close()
		h.close = nil
	}
}
