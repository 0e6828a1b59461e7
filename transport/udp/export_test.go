package udp

import (
	"net/netip"

	"github.com/fanfaremq/fanfare/transport"
)

// PeerAddr returns the address of a retained peer. Only the loop may call it.
func (t *Transport) PeerAddr(p transport.Peer) netip.AddrPort {
	if to := t.peers.Get(p); to != nil {
		return to.AddrPort()
	}
	return netip.AddrPort{}
}
