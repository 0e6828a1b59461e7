//go:build !fanfare_plainudp

package udp

import (
	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/transport"
)

var _ transport.ReplyReader = (*Sender)(nil)

const (
	// replyBuffers is how many messages are received at a time.
	replyBuffers = 4
	// replyRounds is how often ReadReplies receives while each receive is full: if strangers send as
	// fast as they can, the publisher's packets are behind theirs.
	replyRounds = 16
)

// replies receives at the unicast socket for a Sender: the loop may be reading the same socket.
type replies struct {
	mem   []byte
	batch *sys.RecvBatch
	taken int // the message that is being handed out
}

// newReplies allocates its memory on the heap: it lives as long as the Sender, which is not closed during ReadReplies.
func newReplies() *replies {
	r := &replies{mem: make([]byte, replyBuffers*bufferBytes), batch: sys.NewRecvBatch(replyBuffers, sys.RoomForTrains)}
	for i := range replyBuffers {
		r.batch.SetBuffer(i, r.mem[i*bufferBytes:][:bufferBytes])
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
	for range replyRounds {
		if s.readSome(take) < replyBuffers {
			return
		}
	}
}

// readSome receives once, and returns how many messages came.
func (s *Sender) readSome(take func(packet []byte)) int {
	r := s.out.replies
	n, errno := r.batch.Recv(s.t.unicast.fd, replyBuffers)
	if errno != 0 || n == 0 {
		return 0 // what is wrong with the socket is for Poll to say
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
		r.taken = i
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
	return n
}

// ReplyAddress implements transport.ReplyReader.
func (s *Sender) ReplyAddress() string {
	r := s.out.replies
	if r == nil {
		return ""
	}
	return r.batch.From(r.taken).AddrPort().String()
}
