//go:build !linux || fanfare_plainudp

package udp

import (
	"errors"
	"net"
	"net/netip"
	"syscall"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/internal/train"
)

// destination is an address to send to, with a zone where it needs one.
type destination netip.AddrPort

func (d *destination) AddrPort() netip.AddrPort { return netip.AddrPort(*d) }

// outlet is the part of a Sender that depends on the system.
type outlet struct{ to netip.AddrPort }

// aim sets the address to send to.
func (o *outlet) aim(to netip.AddrPort, l *link) { o.to = l.zoned(to) }

// zoned adds the interface to an address that needs a zone.
func (l *link) zoned(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(zoned(a.Addr(), l.name), a.Port())
}

// sendSome sends the packet at from.
func (s *Sender) sendSome(out *transport.Outbound, from int) (packets, bytes int, err error) {
	run, err := train.Next(out, from, largestSend, 1, sys.MaxTrainBytes)
	if err != nil {
		return 0, 0, err
	}
	at := from * out.Stride
	s.sent.Calls.Add(1)
	if err := s.t.write(out.Data[at:at+run.Bytes], s.out.to); err != nil {
		return 0, 0, err
	}
	return 1, run.Bytes, nil
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

// source is the address that a lent train came from.
func (t *Transport) source(from transport.Source) (destination, bool) {
	if _, ok := t.in.Item(uint64(from)); !ok {
		return destination{}, false
	}
	return destination(t.link().zoned(t.from[uint32(from)])), true
}

// answer sends one packet to a peer.
func (t *Transport) answer(to *destination, packet []byte, _ *link) error {
	return t.write(packet, to.AddrPort())
}
