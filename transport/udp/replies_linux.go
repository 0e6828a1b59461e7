//go:build !fanfare_plainudp

package udp

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/transport"
)

var _ transport.ReplyReader = (*Sender)(nil)

// replyBuffers is how many messages one ReadReplies takes.
const replyBuffers = 4

// replies is a prepared recvmmsg on the unicast socket, of a Sender's own: the
// loop may be reading the same socket.
type replies struct {
	mem []byte
	hdr [replyBuffers]mmsghdr
	iov [replyBuffers]unix.Iovec
	ctl [replyBuffers][controlBytes / 8]uint64
	// from is who sent each message, and taken the one that is being handed out.
	from  [replyBuffers]sockaddr
	taken int
}

// newReplies takes its memory from the heap: it lives as long as the Sender,
// which nobody closes under a ReadReplies.
func newReplies() *replies {
	r := &replies{mem: make([]byte, replyBuffers*bufferBytes)}
	for i := range r.hdr {
		r.iov[i].Base = &r.mem[i*bufferBytes]
		r.iov[i].SetLen(bufferBytes)
		r.hdr[i].Iov = &r.iov[i]
		r.hdr[i].SetIovlen(1)
		r.hdr[i].Control = (*byte)(unsafe.Pointer(&r.ctl[i]))
		r.hdr[i].Name = (*byte)(unsafe.Pointer(&r.from[i].raw))
	}
	return r
}

// ReadReplies implements transport.ReplyReader. The kernel's count of dropped
// datagrams is left to Poll: it is a running number.
func (s *Sender) ReadReplies(take func(packet []byte)) {
	s.section.Enter()
	defer s.section.Exit()
	if s.closed.Load() || s.t.closing.Load() {
		return
	}
	if s.out.replies == nil {
		s.out.replies = newReplies()
	}
	r := s.out.replies
	for i := range r.hdr {
		r.hdr[i].SetControllen(controlBytes)
		r.hdr[i].Namelen = unix.SizeofSockaddrInet6
	}
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(s.t.unicast.fd), uintptr(unsafe.Pointer(&r.hdr)), replyBuffers, unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 || n == 0 {
		return // what is wrong with the socket is for Poll to say
	}
	packets, bytes := 0, 0
	for i := range int(n) {
		h := &r.hdr[i]
		b := r.mem[i*bufferBytes:][:h.n]
		if h.Flags&unix.MSG_TRUNC != 0 {
			s.t.received.Truncated.Add(1)
			continue
		}
		segment := parseControl(unsafe.Slice((*byte)(unsafe.Pointer(&r.ctl[i])), int(h.Controllen))).segment
		if segment <= 0 {
			segment = len(b)
		}
		bytes += len(b)
		r.taken, r.from[i].len = i, h.Namelen
		for len(b) > 0 {
			size := min(segment, len(b))
			take(b[:size:size])
			b = b[size:]
			packets++
		}
	}
	s.t.received.Packets.Add(uint64(packets))
	s.t.received.Bytes.Add(uint64(bytes))
	s.t.received.Calls.Add(1)
}

// ReplyAddress implements transport.ReplyReader.
func (s *Sender) ReplyAddress() string {
	r := s.out.replies
	if r == nil {
		return ""
	}
	return r.from[r.taken].addrPort().String()
}
