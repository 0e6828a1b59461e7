package udp

import (
	"fmt"

	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/internal/train"
)

// Retain implements transport.Transport.
func (t *Transport) Retain(from transport.Source) (transport.Peer, error) {
	if t.closing.Load() {
		return 0, errClosed
	}
	to, ok := t.source(from)
	if !ok {
		return 0, fmt.Errorf("%w: its train has been released", errNoPeer)
	}
	p, err := t.peers.Retain(to.AddrPort(), to)
	if err != nil {
		t.received.PeersRefused.Add(1)
		return 0, fmt.Errorf("udp: %w", err)
	}
	return p, nil
}

// SourceAddress implements transport.Transport: "10.0.0.7:40233".
func (t *Transport) SourceAddress(from transport.Source) string {
	to, ok := t.source(from)
	if !ok {
		return ""
	}
	return to.AddrPort().String()
}

// PeerAddress implements transport.Transport.
func (t *Transport) PeerAddress(p transport.Peer) string {
	if to, ok := t.peers.Key(p); ok {
		return to.String()
	}
	return ""
}

// Forget implements transport.Transport.
func (t *Transport) Forget(p transport.Peer) { t.peers.Forget(p) }

// Reply implements transport.Transport. It returns transport.ErrNotReady while the interface is removed
// or down. The loop calls it, so the socket is not closed during the call.
func (t *Transport) Reply(p transport.Peer, packet []byte) error {
	if t.closing.Load() {
		return errClosed
	}
	to := t.peers.Get(p)
	if to == nil {
		return errNoPeer
	}
	if err := train.CheckPacket(len(packet), largestSend); err != nil {
		return err
	}
	at := t.at.Load()
	if at.gone {
		return errAway
	}
	t.sent.Calls.Add(1)
	if err := t.answer(to, packet, &at.link); err != nil {
		t.sent.CountReply(err)
		return err
	}
	t.sent.Packets.Add(1)
	t.sent.Bytes.Add(uint64(len(packet)))
	return nil
}
