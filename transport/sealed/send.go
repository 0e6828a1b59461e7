package sealed

import (
	"errors"
	"sync/atomic"

	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/internal/grace"
	"github.com/fanfaremq/fanfare/transport/internal/staging"
	"github.com/fanfaremq/fanfare/transport/internal/tally"
	"github.com/fanfaremq/fanfare/transport/internal/train"
)

// Sender seals packets to one group. The caller's memory is free when Send returns: packets are sent from the Sender's
// own memory. Packets that the inner sender does not accept are sealed again when they are sent again.
type Sender struct {
	t             *Transport
	inner         transport.Sender
	caps          transport.Capabilities // of the inner transport
	seal          *sealer
	section       grace.Section
	closed        atomic.Bool
	accepted      uint64
	innerAccepted uint64 // packets that inner accepted
	staging       staging.Memory
	lens          []uint16
	part          transport.Outbound // a field, to avoid an allocation for each train
	sent          tally.Sent

	// For ReadReplies.
	reader  transport.ReplyReader // inner, if it is one
	handle  func([]byte)
	onReply func([]byte) // allocated once, like from
	from    func() string
	copy    []byte // of a reply, if those of inner are read-only
}

var _ transport.Sender = (*Sender)(nil)

// readingSender is a Sender with an inner Sender that reads replies.
type readingSender struct{ *Sender }

var _ transport.ReplyReader = readingSender{}

// NewSender implements transport.Transport. Its memory is allocated by the first Send.
func (t *Transport) NewSender(group int) (transport.Sender, error) {
	inner, err := t.inner.NewSender(group)
	if err != nil {
		return nil, err
	}
	s := &Sender{t: t, inner: inner, caps: t.inner.Capabilities(), seal: newSealer(uint32(group), t.cfg.Random)}
	s.reader, _ = inner.(transport.ReplyReader)
	s.onReply = s.replied
	if s.reader != nil {
		s.from = s.reader.ReplyAddress
	}
	t.mu.Lock()
	t.senders[s] = struct{}{}
	t.mu.Unlock()
	if s.reader != nil {
		return readingSender{s}, nil
	}
	return s, nil
}

func (s *Sender) Send(out *transport.Outbound) (int, error) {
	n, bytes, err := s.enclosed(out)
	s.accepted += uint64(n)
	if n > 0 {
		s.sent.Packets.Add(uint64(n))
		s.sent.Bytes.Add(uint64(bytes))
		s.sent.Calls.Add(1)
	}
	if err != nil {
		s.sent.Count(err)
	}
	return n, err
}

// enclosed calls send within the section that Close waits for, which ends even if the Provider panics.
func (s *Sender) enclosed(out *transport.Outbound) (packets, bytes int, err error) {
	s.section.Enter()
	defer s.section.Exit()
	return s.send(out)
}

func (s *Sender) send(out *transport.Outbound) (packets, bytes int, err error) {
	if s.closed.Load() || s.t.closing.Load() {
		return 0, 0, errClosed
	}
	if err := train.Check(out); err != nil {
		return 0, 0, err
	}
	if err := s.begin(out.Count); err != nil {
		return 0, 0, err
	}
	for packets < out.Count {
		n, size, err := s.sendPart(out, packets)
		packets += n
		bytes += size
		if err != nil {
			return packets, bytes, err
		}
	}
	return packets, bytes, nil
}

// begin prepares to seal count complete packets.
func (s *Sender) begin(count int) error {
	if s.staging.Bytes == nil {
		if err := s.allocate(); err != nil {
			return err
		}
	}
	err := s.seal.begin(s.t.cfg.Keys.Keys(), s.t.cfg.Now(), count)
	return s.t.noKey(err, count)
}

// noKey counts and reports packets that cannot be sealed.
func (t *Transport) noKey(err error, packets int) error {
	if errors.Is(err, ErrNoKey) {
		t.unsent.Add(uint64(packets))
		if x, first := t.notices.once(notice{why: transport.UnreadableNoKey}); first {
			t.notices.add(x, "", 0)
			t.inner.Wake()
		}
	}
	return err
}

// sendPart seals packets of out, beginning with packet from, as many as fit into a train of the inner transport, and
// sends them. It returns how many were accepted, and their bytes.
func (s *Sender) sendPart(out *transport.Outbound, from int) (packets, bytes int, err error) {
	maxLen := s.caps.MaxPacket - Overhead
	stride := out.Stride
	if out.Count == 1 {
		stride = int(out.Lens[0])
	}
	n := 0
	stride += Overhead
	for n < min(out.Count-from, s.caps.MaxTrain, len(s.lens)) {
		size := int(out.Lens[from+n])
		if err = train.CheckPacket(size, maxLen); err != nil {
			break
		}
		if n > 0 && n*stride+size+Overhead > s.caps.MaxTrainBytes || size+Overhead > stride {
			break
		}
		s.lens[n] = uint16(size + Overhead)
		n++
	}
	if n == 0 {
		if err == nil {
			err = train.CheckPacket(out.Stride+1, out.Stride) // longer than the stride
		}
		return 0, 0, err
	}
	last := int(s.lens[n-1])
	mem, ok := s.staging.Alloc((n-1)*stride+last, s.inner.Completed())
	if !ok {
		return 0, 0, transport.ErrBusy
	}
	for i := range n {
		at := (from + i) * out.Stride
		s.seal.seal(mem[i*stride:][:s.lens[i]], out.Data[at:at+int(out.Lens[from+i])])
	}
	s.part = transport.Outbound{Data: mem, Stride: stride, Count: n, Lens: s.lens[:n]}
	packets, sendErr := s.inner.Send(&s.part)
	s.innerAccepted += uint64(packets)
	s.staging.Sent(s.innerAccepted, packets > 0)
	for _, l := range s.lens[:packets] {
		bytes += int(l) - Overhead
	}
	if sendErr != nil {
		return packets, bytes, sendErr
	}
	return packets, bytes, err
}

// Completed implements transport.Sender. Packets are sealed into other memory, so it equals the number of packets
// accepted.
func (s *Sender) Completed() uint64 { return s.accepted }

func (s *Sender) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	idle := s.inner.Completed() == s.innerAccepted
	err := s.inner.Close()
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	if _, ok := s.t.senders[s]; !ok {
		return err
	}
	delete(s.t.senders, s)
	s.t.sent.Fold(&s.sent)
	if mem := s.staging.Bytes; idle {
		s.abandon()
	} else {
		s.t.left = append(s.t.left, mem)
		s.staging.Bytes = nil
	}
	return err
}

// abandon frees the memory, which the fabric no longer reads. Under Transport.mu.
func (s *Sender) abandon() {
	s.t.inner.Free(s.staging.Bytes)
	s.staging.Bytes = nil
}

// allocate allocates the memory to send from.
func (s *Sender) allocate() error {
	mem, err := s.t.inner.Alloc(staging.Size(s.caps))
	if err != nil {
		return err
	}
	s.lens = make([]uint16, min(s.caps.MaxTrain, maxTrain))
	s.t.mu.Lock()
	s.staging.Bytes = mem
	s.t.mu.Unlock()
	return nil
}

// Reply implements transport.Transport.
func (t *Transport) Reply(p transport.Peer, packet []byte) error {
	if t.closing.Load() {
		return errClosed
	}
	if err := train.CheckPacket(len(packet), len(t.out)-Overhead); err != nil {
		return err
	}
	if err := t.noKey(t.reply.begin(t.cfg.Keys.Keys(), t.cfg.Now(), 1), 1); err != nil {
		return err
	}
	b := t.out[:len(packet)+Overhead]
	t.reply.seal(b, packet)
	if err := t.inner.Reply(p, b); err != nil {
		t.sent.CountReply(err)
		return err
	}
	t.sent.Packets.Add(1)
	t.sent.Bytes.Add(uint64(len(packet)))
	t.sent.Calls.Add(1)
	return nil
}

func (r readingSender) ReadReplies(handle func(packet []byte)) {
	s := r.Sender
	s.t.beginReplies()
	s.handle = handle
	s.reader.ReadReplies(s.onReply)
	s.handle = nil
}

// replied opens a reply that a publisher has read.
func (s *Sender) replied(p []byte) {
	t := s.t
	if s.caps.ReadOnly {
		s.copy = append(s.copy[:0], p...)
		p = s.copy
	}
	v, off := t.openReply(p, s.from)
	if v != accepted {
		t.refused[v].Add(1)
		if x, ok := t.notices.shouldReport(v, p); ok {
			t.notices.add(x, s.reader.ReplyAddress(), off)
			t.inner.Wake()
		}
		return
	}
	t.received.Packets.Add(1)
	t.received.Bytes.Add(uint64(len(p) - Overhead))
	s.handle(p[headerLen : len(p)-tagLen])
}

func (r readingSender) ReplyAddress() string { return r.reader.ReplyAddress() }
