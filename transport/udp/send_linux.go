//go:build !fanfare_plainudp

package udp

import (
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/internal/train"
)

// The path of a sent train:
//
//	Send ─► train.Next: a run of equal packets ─► sendTrain (sendmsg, UDP_SEGMENT)
//	    └─ without GSO ────────────────────────► sendEach (sendmmsg)

// outlet is the part of a Sender that depends on the system.
type outlet struct {
	batch   sys.SendBatch
	replies *replies // nil until ReadReplies is called
}

// aim sets the address to send to.
func (o *outlet) aim(to netip.AddrPort, l *link) {
	o.batch.SetAddress(sys.NewSockaddr(to, l.index))
}

// sendSome sends one train, or a batch of single packets, beginning at packet from.
func (s *Sender) sendSome(out *transport.Outbound, from int) (packets, bytes int, err error) {
	if s.t.gso.Load() {
		run, err := train.Next(out, from, maxPacket, sys.MaxSegments, sys.MaxTrainBytes)
		if err != nil {
			return 0, 0, err
		}
		// A GSO segment must fit the MTU; larger packets are sent as IP fragments.
		if run.Count == 1 || run.Size <= s.at.mtu-s.t.cfg.headers() {
			errno := s.sendTrain(out, from, run)
			if errno == 0 {
				return run.Count, run.Bytes, nil
			}
			if run.Count == 1 || !sys.RefusesTrains(errno) {
				return 0, 0, sendError("sendmsg", errno)
			}
			s.t.gso.Store(false)
			s.sent.GSORefused.Add(1)
		}
	}
	return s.sendEach(out, from)
}

// sendTrain sends a run in one call.
func (s *Sender) sendTrain(out *transport.Outbound, from int, run train.Run) syscall.Errno {
	b := &s.out.batch
	base := from * out.Stride
	parts := 1
	if run.Packed(out.Stride) {
		b.Put(0, out.Data[base:base+run.Bytes])
	} else {
		// The kernel gathers packets that are not contiguous.
		for parts = range run.Count {
			at := base + parts*out.Stride
			b.Put(parts, out.Data[at:at+int(out.Lens[from+parts])])
		}
		parts++
	}
	segment := run.Size
	if run.Count == 1 {
		segment = 0
	}
	s.sent.Calls.Add(1)
	return b.SendTrain(s.t.unicast.fd, parts, segment)
}

// sendEach sends up to sys.MaxSegments packets as separate datagrams in one call.
func (s *Sender) sendEach(out *transport.Outbound, from int) (packets, bytes int, err error) {
	b := &s.out.batch
	n := 0
	for ; n < sys.MaxSegments && from+n < out.Count; n++ {
		at, size := (from+n)*out.Stride, int(out.Lens[from+n])
		if _, err = train.Next(out, from+n, maxPacket, 1, sys.MaxTrainBytes); err != nil {
			break
		}
		b.Put(n, out.Data[at:at+size])
	}
	if n == 0 {
		return 0, 0, err
	}
	s.sent.Calls.Add(1)
	sent, errno := b.SendEach(s.t.unicast.fd, n)
	for i := range sent {
		bytes += int(out.Lens[from+i])
	}
	if errno != 0 {
		return sent, bytes, sendError("sendmmsg", errno)
	}
	if sent < n {
		// The next call returns the error.
		return sent, bytes, nil
	}
	return sent, bytes, err
}

// sendError makes the error for an errno.
func sendError(op string, errno syscall.Errno) error {
	switch errno {
	case unix.EAGAIN:
		return errAgain
	case unix.ENOBUFS:
		return errNoBufs
	}
	return &SendError{Op: op, Err: errno}
}
