//go:build !fanfare_plainudp

package udp

import (
	"fmt"
	"net/netip"

	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/internal/train"
)

// Retain implements transport.Transport.
func (t *Transport) Retain(from transport.Source) (transport.Peer, error) {
	if t.closing.Load() {
		return 0, errClosed
	}
	sa, ok := t.recv.source(from)
	if !ok {
		return 0, fmt.Errorf("%w: its train has been released", errNoPeer)
	}
	p, err := t.peers.Retain(sa.addrPort(), *sa)
	if err != nil {
		t.received.PeersRefused.Add(1)
		return 0, fmt.Errorf("udp: %w", err)
	}
	return p, nil
}

// Forget implements transport.Transport.
func (t *Transport) Forget(p transport.Peer) { t.peers.Forget(p) }

// PeerAddr is the address behind a retained peer, for people to read.
func (t *Transport) PeerAddr(p transport.Peer) netip.AddrPort {
	if sa := t.peers.Get(p); sa != nil {
		return sa.addrPort()
	}
	return netip.AddrPort{}
}

// Reply implements transport.Transport. The loop calls it, so that the socket
// cannot go meanwhile.
func (t *Transport) Reply(p transport.Peer, packet []byte) error {
	if t.closing.Load() {
		return errClosed
	}
	to := t.peers.Get(p)
	if to == nil {
		return errNoPeer
	}
	if err := train.CheckPacket(len(packet), maxPacket); err != nil {
		t.sent.Errors.Add(1)
		return err
	}
	m := &t.reply
	m.address(to)
	m.iov[0].Base = &packet[0]
	m.iov[0].SetLen(len(packet))
	m.hdr.SetIovlen(1)
	t.sent.Calls.Add(1)
	errno := m.send(t.unicast.fd)
	m.iov[0].Base = nil
	m.hdr.Name = nil
	if errno != 0 {
		err := sendError("sendmsg", errno)
		t.sent.Count(err)
		return err
	}
	t.sent.Packets.Add(1)
	t.sent.Bytes.Add(uint64(len(packet)))
	return nil
}
