package fabricurl

import "github.com/fanfaremq/fanfare/rdma"

// Host is a way to the RDMA devices of a host.
type Host struct {
	rdma.Provider
	// Device that the URL named, and Port of it, from 1.
	Device string
	Port   uint8
	// Addr is the port's address, for rdma.ID.Bind.
	Addr rdma.Addr
	// Peer is another host of the same subnet; nil unless it is simulated.
	Peer *Host

	close func()
}

// Close ends what OpenHost began. Objects made from the provider come first. It is idempotent.
func (h *Host) Close() {
	if h.close != nil {
		h.close()
		h.close = nil
	}
}
