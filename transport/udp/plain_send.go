//go:build !linux || fanfare_plainudp

package udp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"

	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/internal/grace"
	"github.com/fanfaremq/fanfare/transport/internal/tally"
	"github.com/fanfaremq/fanfare/transport/internal/train"
)

// Sender sends to one group, a datagram at a time.
type Sender struct {
	t       *Transport
	group   int
	to      netip.AddrPort
	section grace.Section
	closed  atomic.Bool
	taken   uint64
	sent    tally.Sent
}

var _ transport.Sender = (*Sender)(nil)

// NewSender implements transport.Transport. Sending needs no membership, so the
// sender is ready at once.
func (t *Transport) NewSender(group int) (transport.Sender, error) {
	if err := t.check(group); err != nil {
		return nil, err
	}
	s := &Sender{t: t, group: group, to: t.zoned(t.groupAddr(group))}
	t.register(s, group)
	return s, nil
}

func (t *Transport) zoned(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(zoned(a.Addr(), t.link.name), a.Port())
}

// Send implements transport.Sender. Package net waits where the socket buffer
// is full, so ErrBusy is rare here and Send may block for a moment.
func (s *Sender) Send(out *transport.Outbound) (int, error) {
	s.section.Enter()
	n, bytes, err := s.send(out)
	s.section.Exit()
	s.taken += uint64(n)
	if n > 0 {
		s.sent.Packets.Add(uint64(n))
		s.sent.Bytes.Add(uint64(bytes))
		s.sent.Calls.Add(uint64(n))
	}
	if err != nil {
		s.sent.Count(err)
	}
	return n, err
}

func (s *Sender) send(out *transport.Outbound) (packets, bytes int, err error) {
	if s.closed.Load() || s.t.closing.Load() {
		return 0, 0, errClosed
	}
	if err := train.Check(out); err != nil {
		return 0, 0, err
	}
	for ; packets < out.Count; packets++ {
		run, err := train.Next(out, packets, largestSend, 1, maxTrainBytes)
		if err != nil {
			return packets, bytes, err
		}
		at := packets * out.Stride
		if err := s.t.write(out.Data[at:at+run.Bytes], s.to); err != nil {
			return packets, bytes, err
		}
		bytes += run.Bytes
	}
	return packets, bytes, nil
}

func (t *Transport) write(packet []byte, to netip.AddrPort) error {
	_, err := t.unicast.WriteToUDPAddrPort(packet, to)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, net.ErrClosed):
		return errClosed
	case errors.Is(err, syscall.ENOBUFS):
		return errNoBufs
	}
	return &SendError{Op: "sendto", Err: err}
}

// Retain implements transport.Transport.
func (t *Transport) Retain(from transport.Source) (transport.Peer, error) {
	if t.closing.Load() {
		return 0, errClosed
	}
	if _, ok := t.in.Item(uint64(from)); !ok {
		return 0, fmt.Errorf("%w: its train has been released", errNoPeer)
	}
	addr := t.from[uint32(from)]
	p, err := t.peers.Retain(addr, t.zoned(addr))
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
	if a := t.peers.Get(p); a != nil {
		return *a
	}
	return netip.AddrPort{}
}

// Reply implements transport.Transport.
func (t *Transport) Reply(p transport.Peer, packet []byte) error {
	if t.closing.Load() {
		return errClosed
	}
	to := t.peers.Get(p)
	if to == nil {
		return errNoPeer
	}
	if err := train.CheckPacket(len(packet), largestSend); err != nil {
		t.sent.Errors.Add(1)
		return err
	}
	t.sent.Calls.Add(1)
	if err := t.write(packet, *to); err != nil {
		t.sent.Count(err)
		return err
	}
	t.sent.Packets.Add(1)
	t.sent.Bytes.Add(uint64(len(packet)))
	return nil
}
