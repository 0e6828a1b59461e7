//go:build !fanfare_plainudp

package udp

import (
	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/transport"
)

// source is the address that a lent train came from.
func (t *Transport) source(from transport.Source) (sys.Sockaddr, bool) {
	sa, ok := t.recv.source(from)
	if !ok {
		return sys.Sockaddr{}, false
	}
	return *sa, true
}

// answer sends one packet to a peer.
func (t *Transport) answer(to *sys.Sockaddr, packet []byte, l *link) error {
	to.SetInterface(l.index) // the interface may have a new index
	if errno := sys.SendTo(t.unicast.fd, packet, to); errno != 0 {
		return sendError("sendto", errno)
	}
	return nil
}
