package shm

import "github.com/fanfaremq/fanfare/transport"

var _ transport.ReplyReader = (*Sender)(nil)

// replies has the packet that a Sender is reading, and its source.
type replies struct {
	packet []byte
	from   *peer
}

// ReadReplies implements transport.ReplyReader. In a lane it stops at the first packet of a group: the loop reads it
// and later entries.
func (s *Sender) ReadReplies(handle func(packet []byte)) {
	s.section.Enter()
	defer s.section.Exit()
	t := s.t
	if s.closed.Load() || t.closing.Load() {
		return
	}
	if s.replies.packet == nil {
		s.replies.packet = make([]byte, maxPacket)
	}
	packets, bytes := 0, 0
	for range batch {
		n := t.readReply(&s.replies)
		if n == 0 {
			break
		}
		handle(s.replies.packet[:n:n])
		packets++
		bytes += n
	}
	if packets > 0 {
		t.received.Packets.Add(uint64(packets))
		t.received.Bytes.Add(uint64(bytes))
		t.received.Calls.Add(1)
	}
}

// ReplyAddress implements transport.ReplyReader.
func (s *Sender) ReplyAddress() string {
	if s.replies.from == nil {
		return ""
	}
	return s.replies.from.address(s.t.cfg.Name)
}

// readReply copies the next reply, and returns its size: 0 if there is none, or if the loop is fetching. Because of the
// copy its chunk is returned before the reply is handled, which must happen without a lock.
func (t *Transport) readReply(r *replies) int {
	if !t.fetching.TryLock() {
		return 0
	}
	defer t.fetching.Unlock()
	for _, p := range *t.known.Load() {
		for from := p.next; p.next-from < laneSlots; {
			e, ok := t.entry(p)
			if !ok || e.chunk != void && (e.group != transport.Unicast || e.bytes > len(r.packet)) {
				break
			}
			pos := p.next
			if p.next++; e.chunk == void {
				continue
			}
			if !p.copy(r.packet[:e.bytes], e.at()) {
				p.markBad()
				break
			}
			t.returnPosition(p, pos)
			r.from = p
			return e.bytes
		}
	}
	return 0
}
