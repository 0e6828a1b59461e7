//go:build !fanfare_plainudp

package udp

import (
	"fmt"
	"net/netip"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/internal/grace"
	"github.com/fanfaremq/fanfare/transport/internal/tally"
	"github.com/fanfaremq/fanfare/transport/internal/train"
)

// The way of a train out:
//
//	Send ─► train.Next: a run of equal packets ─► sendTrain (sendmsg, UDP_SEGMENT)
//	    └─ without GSO ────────────────────────► sendEach (sendmmsg)

// Sender sends to one group.
type Sender struct {
	t       *Transport
	group   int
	section grace.Section
	closed  atomic.Bool
	taken   uint64
	to      sockaddr
	msg     message
	many    multi
	sent    tally.Sent
}

var _ transport.Sender = (*Sender)(nil)

// NewSender implements transport.Transport. Sending needs no membership, so the
// sender is ready at once.
func (t *Transport) NewSender(group int) (transport.Sender, error) {
	if err := t.check(group); err != nil {
		return nil, err
	}
	s := &Sender{t: t, group: group, to: toSockaddr(t.groupAddr(group), t.link.index)}
	s.msg.init(&s.to)
	s.many.init(&s.to)
	t.register(s, group)
	return s, nil
}

// Send implements transport.Sender.
func (s *Sender) Send(out *transport.Outbound) (int, error) {
	s.section.Enter()
	n, bytes, err := s.send(out)
	s.section.Exit()
	s.taken += uint64(n)
	if n > 0 {
		s.sent.Packets.Add(uint64(n))
		s.sent.Bytes.Add(uint64(bytes))
	}
	if err != nil {
		s.sent.Count(err)
	}
	return n, err
}

func (s *Sender) send(out *transport.Outbound) (packets, bytes int, err error) {
	// The order matters: whoever closes sets the flag before looking who is in
	// a section.
	if s.closed.Load() || s.t.closing.Load() {
		return 0, 0, errClosed
	}
	if err := train.Check(out); err != nil {
		return 0, 0, err
	}
	for packets < out.Count {
		n, b, err := s.sendSome(out, packets)
		packets += n
		bytes += b
		if err != nil {
			return packets, bytes, err
		}
	}
	return packets, bytes, nil
}

// sendSome sends one train, or one row of single packets, beginning at from.
func (s *Sender) sendSome(out *transport.Outbound, from int) (packets, bytes int, err error) {
	if s.t.gso.Load() {
		run, err := train.Next(out, from, maxPacket, maxSegments, maxTrainBytes)
		if err != nil {
			return 0, 0, err
		}
		// A segment must fit the MTU; what does not goes as IP fragments.
		if run.Count == 1 || run.Size <= s.t.link.mtu-s.t.cfg.headers() {
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
	m := &s.msg
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
	m := &s.many
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

// message is a prepared sendmsg.
type message struct {
	hdr unix.Msghdr
	iov [maxSegments]unix.Iovec
	ctl [3]uint64 // one control message with UDP_SEGMENT; aligned for Cmsghdr
}

func (m *message) init(to *sockaddr) {
	m.hdr.Iov = &m.iov[0]
	h := (*unix.Cmsghdr)(unsafe.Pointer(&m.ctl))
	h.Level, h.Type = unix.IPPROTO_UDP, unix.UDP_SEGMENT
	h.SetLen(unix.CmsgLen(2))
	if to != nil {
		m.address(to)
	}
}

func (m *message) address(to *sockaddr) {
	m.hdr.Name = (*byte)(unsafe.Pointer(&to.raw))
	m.hdr.Namelen = to.len
}

// segment has the kernel cut the message into packets of the run's size
// (udp(7), UDP_SEGMENT), unless it is only one.
func (m *message) segment(run train.Run) {
	if run.Count == 1 {
		m.hdr.Control = nil
		m.hdr.SetControllen(0)
		return
	}
	*(*uint16)(unsafe.Add(unsafe.Pointer(&m.ctl), unix.CmsgLen(0))) = uint16(run.Size)
	m.hdr.Control = (*byte)(unsafe.Pointer(&m.ctl))
	m.hdr.SetControllen(unix.CmsgSpace(2))
}

func (m *message) send(fd int) syscall.Errno {
	for {
		_, _, errno := unix.Syscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&m.hdr)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		if errno != unix.EINTR {
			return errno
		}
	}
}

// mmsghdr is struct mmsghdr of recvmmsg(2) and sendmmsg(2).
type mmsghdr struct {
	unix.Msghdr
	n uint32 // bytes received or sent
}

// multi is a prepared sendmmsg of packets to one address.
type multi struct {
	hdr [maxSegments]mmsghdr
	iov [maxSegments]unix.Iovec
}

func (m *multi) init(to *sockaddr) {
	for i := range m.hdr {
		h := &m.hdr[i].Msghdr
		h.Name = (*byte)(unsafe.Pointer(&to.raw))
		h.Namelen = to.len
		h.Iov = &m.iov[i]
		h.SetIovlen(1)
	}
}

// send sends the first n packets and returns how many it sent; an errno only if
// it sent none.
func (m *multi) send(fd, n int) (int, syscall.Errno) {
	for {
		sent, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&m.hdr)), uintptr(n), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		switch errno {
		case 0:
			return int(sent), 0
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}
