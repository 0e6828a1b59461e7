//go:build !fanfare_plainudp

package udp

import "github.com/fanfaremq/fanfare/transport"

// source is the address that a lent train came from.
func (t *Transport) source(from transport.Source) (sockaddr, bool) {
	sa, ok := t.recv.source(from)
	if !ok {
		return sockaddr{}, false
	}
	return *sa, true
}

// answer sends one packet to a peer.
func (t *Transport) answer(to *sockaddr, packet []byte, l *link) error {
	if to.is6() && to.raw.Scope_id != 0 {
		to.raw.Scope_id = uint32(l.index) // it may have come back under another
	}
	m := &t.reply
	m.address(to)
	m.iov[0].Base = &packet[0]
	m.iov[0].SetLen(len(packet))
	m.hdr.SetIovlen(1)
	errno := m.send(t.unicast.fd)
	m.iov[0].Base = nil
	m.hdr.Name = nil
	if errno != 0 {
		return sendError("sendmsg", errno)
	}
	return nil
}
