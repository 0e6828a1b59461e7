//go:build !fanfare_plainudp

package udp

import (
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/internal/train"
)

// The way of a train out:
//
//	Send ─► train.Next: a run of equal packets ─► sendTrain (sendmsg, UDP_SEGMENT)
//	    └─ without GSO ────────────────────────► sendEach (sendmmsg)

// outlet is the way out of a Sender.
type outlet struct {
	to      sockaddr
	msg     message
	many    multi
	replies *replies // nil until they are read
}

// aim sets the address to send to.
func (o *outlet) aim(to netip.AddrPort, l *link) {
	o.to = toSockaddr(to, l.index)
	o.msg.init(&o.to)
	o.many.init(&o.to)
}

// sendSome sends one train, or one row of single packets, beginning at from.
func (s *Sender) sendSome(out *transport.Outbound, from int) (packets, bytes int, err error) {
	if s.t.gso.Load() {
		run, err := train.Next(out, from, maxPacket, maxSegments, maxTrainBytes)
		if err != nil {
			return 0, 0, err
		}
		// A segment must fit the MTU; what does not goes as IP fragments.
		if run.Count == 1 || run.Size <= s.at.mtu-s.t.cfg.headers() {
			errno := s.sendTrain(out, from, run)
			if errno == 0 {
				return run.Count, run.Bytes, nil
			}
			if run.Count == 1 || !refusesGSO(errno) {
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
	m := &s.out.msg
	base := from * out.Stride
	if run.Packed(out.Stride) {
		m.iov[0].Base = &out.Data[base]
		m.iov[0].SetLen(run.Bytes)
		m.hdr.SetIovlen(1)
	} else {
		// Packets apart from each other are gathered by the kernel.
		for i := range run.Count {
			m.iov[i].Base = &out.Data[base+i*out.Stride]
			m.iov[i].SetLen(int(out.Lens[from+i]))
		}
		m.hdr.SetIovlen(run.Count)
	}
	m.segment(run)
	s.sent.Calls.Add(1)
	return m.send(s.t.unicast.fd)
}

// sendEach sends up to maxSegments packets, each by itself, in one call.
func (s *Sender) sendEach(out *transport.Outbound, from int) (packets, bytes int, err error) {
	m := &s.out.many
	n := 0
	for ; n < len(m.hdr) && from+n < out.Count; n++ {
		at, size := (from+n)*out.Stride, int(out.Lens[from+n])
		if _, err = train.Next(out, from+n, maxPacket, 1, maxTrainBytes); err != nil {
			break
		}
		m.iov[n].Base = &out.Data[at]
		m.iov[n].SetLen(size)
	}
	if n == 0 {
		return 0, 0, err
	}
	s.sent.Calls.Add(1)
	sent, errno := m.send(s.t.unicast.fd, n)
	for i := range sent {
		bytes += int(out.Lens[from+i])
	}
	if errno != 0 {
		return sent, bytes, sendError("sendmmsg", errno)
	}
	if sent < n {
		// The next call tells what stopped it.
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
