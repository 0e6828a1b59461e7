package udp

import (
	"net/netip"

	"github.com/fanfaremq/fanfare/transport"
)

// PeerAddr is the address behind a retained peer, which belongs to the loop.
func (t *Transport) PeerAddr(p transport.Peer) netip.AddrPort {
	if to := t.peers.Get(p); to != nil {
		return to.AddrPort()
	}
	return netip.AddrPort{}
}
