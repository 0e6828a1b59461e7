//go:build !fanfare_plainudp

package udp

import (
	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/transport"
)

var _ transport.ReplyReader = (*Sender)(nil)

const (
	// replyBuffers is the number of messages in one receive.
	replyBuffers = 4
	// replyRounds bounds how often ReadReplies receives while each receive is full: an attacker could otherwise keep the
	// publisher here.
	replyRounds = 16
)

// replies receives at the unicast socket for a Sender: the loop may be reading the same socket.
type replies struct {
	mem     []byte
	batch   *sys.RecvBatch
	current int // index of the message passed to handle
}

// newReplies allocates its memory on the Go heap, so that it stays valid as long as the Sender.
func newReplies() *replies {
	r := &replies{mem: make([]byte, replyBuffers*bufferBytes), batch: sys.NewRecvBatch(replyBuffers, sys.RoomForTrains)}
	for i := range replyBuffers {
		r.batch.SetBuffer(i, r.mem[i*bufferBytes:][:bufferBytes])
	}
	return r
}

// ReadReplies implements transport.ReplyReader. It ignores the kernel's count of dropped datagrams, which is
// cumulative: Poll reads it.
func (s *Sender) ReadReplies(handle func(packet []byte)) {
	s.section.Enter()
	defer s.section.Exit()
	if s.closed.Load() || s.t.closing.Load() {
		return
	}
	if s.out.replies == nil {
		s.out.replies = newReplies()
	}
	for range replyRounds {
		if s.readSome(handle) < replyBuffers {
			return
		}
	}
}

// readSome receives once, and returns the number of messages.
func (s *Sender) readSome(handle func(packet []byte)) int {
	r := s.out.replies
	n, errno := r.batch.Recv(s.t.unicast.fd, replyBuffers)
	if errno != 0 || n == 0 {
		return 0 // Poll reports errors of the socket
	}
	packets, bytes := 0, 0
	for i := range n {
		b := r.mem[i*bufferBytes:][:r.batch.Size(i)]
		if r.batch.Truncated(i) {
			s.t.received.Truncated.Add(1)
			continue
		}
		segment := r.batch.Control(i).Segment
		if segment <= 0 {
			segment = len(b)
		}
		bytes += len(b)
		r.current = i
		for len(b) > 0 {
			size := min(segment, len(b))
			handle(b[:size:size])
			b = b[size:]
			packets++
		}
	}
	s.t.received.Packets.Add(uint64(packets))
	s.t.received.Bytes.Add(uint64(bytes))
	s.t.received.Calls.Add(1)
	return n
}

// ReplyAddress implements transport.ReplyReader.
func (s *Sender) ReplyAddress() string {
	r := s.out.replies
	if r == nil {
		return ""
	}
	return r.batch.From(r.current).AddrPort().String()
}
