package signed

import (
	"fmt"
	"net"
	"sync/atomic"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/internal/staging"
	"github.com/fanfaremq/fanfare/transport/internal/train"
)

// Sender signs the packets to one group. The caller's memory is free when Send returns: packets are sent from the
// Sender's own memory. Packets that the inner sender does not accept are signed again when they are sent again, and so
// are repairs, so that each packet has a recent time.
type Sender struct {
	signer        *Signer
	inner         transport.Sender
	t             transport.Transport
	caps          transport.Capabilities // of t
	limits        transport.Capabilities // of packets signed together
	counter       *atomic.Uint64
	tree          tree
	staging       staging.Memory
	lens          [wire.MaxSignedTrain]uint16
	part          transport.Outbound // a field, to avoid an allocation for each train
	accepted      uint64
	innerAccepted uint64 // packets that inner accepted
	closed        bool
}

var errClosed = fmt.Errorf("signed: %w", net.ErrClosed)

// readingSender is a Sender with an inner Sender that reads replies, which are not signed.
type readingSender struct {
	*Sender
	transport.ReplyReader
}

func (r readingSender) Send(out *transport.Outbound) (int, error) { return r.Sender.Send(out) }
func (r readingSender) Completed() uint64                         { return r.Sender.Completed() }
func (r readingSender) Close() error                              { return r.Sender.Close() }

// NewSender returns a sender to a group of t that signs. It is a transport.ReplyReader if the sender of t is one.
func (s *Signer) NewSender(t transport.Transport, group int) (transport.Sender, error) {
	inner, err := t.NewSender(group)
	if err != nil {
		return nil, err
	}
	x := &Sender{signer: s, inner: inner, t: t, caps: t.Capabilities(), counter: s.counter(group)}
	x.limits = Capabilities(x.caps)
	x.tree.hasher = newHasher()
	if r, ok := inner.(transport.ReplyReader); ok {
		return readingSender{x, r}, nil
	}
	return x, nil
}

// Send implements transport.Sender.
func (s *Sender) Send(out *transport.Outbound) (n int, err error) {
	if s.closed {
		return 0, errClosed
	}
	if err := train.Check(out); err != nil {
		return 0, err
	}
	if s.staging.Bytes == nil {
		if err := s.allocate(); err != nil {
			return 0, err
		}
	}
	for n < out.Count && err == nil {
		var k int
		k, err = s.sendTree(out, n)
		n += k
	}
	s.accepted += uint64(n)
	return n, err
}

// fit is how many packets of out, beginning with packet from, are signed together, and the depth of their tree.
func (s *Sender) fit(out *transport.Outbound, from int) (n, depth int, err error) {
	maxCount := min(out.Count-from, s.limits.MaxTrain)
	stride := out.Stride
	if maxCount == 1 {
		stride = int(out.Lens[from])
	}
	for n < maxCount {
		size := int(out.Lens[from+n])
		if err = train.CheckPacket(size, s.limits.MaxPacket); err != nil {
			break
		}
		if n > 0 && n*stride+size > s.limits.MaxTrainBytes || size > stride {
			break
		}
		n++
	}
	if n > 0 {
		return n, depthOf(n), nil
	}
	if err == nil {
		err = train.CheckPacket(out.Stride+1, out.Stride) // longer than the stride
	}
	return 0, 0, err
}

// sendTree signs the packets of out that make one tree, beginning with packet from, and sends them. It returns how many
// were accepted.
func (s *Sender) sendTree(out *transport.Outbound, from int) (int, error) {
	n, depth, err := s.fit(out, from)
	if err != nil {
		return 0, err
	}
	head := wire.SignedHead(depth)
	stride := out.Stride + head
	if n == 1 {
		stride = int(out.Lens[from]) + head
	}
	mem, ok := s.staging.Alloc((n-1)*stride+int(out.Lens[from+n-1])+head, s.inner.Completed())
	if !ok {
		return 0, transport.ErrBusy
	}
	for i := range n {
		size, at := int(out.Lens[from+i]), (from+i)*out.Stride
		copy(mem[i*stride+head:], out.Data[at:at+size])
		s.lens[i] = uint16(size + head)
	}
	if err := s.tree.sign(s.signer, s.counter.Add(1), mem, stride, s.lens[:n]); err != nil {
		return 0, err
	}
	accepted, err := s.sendTrains(mem, stride, s.lens[:n])
	s.innerAccepted += uint64(accepted)
	s.staging.Sent(s.innerAccepted, accepted > 0)
	return accepted, err
}

// sendTrains sends signed packets in one or more trains, and returns how many packets were accepted.
func (s *Sender) sendTrains(mem []byte, stride int, lens []uint16) (accepted int, err error) {
	full := max(1, min(s.caps.MaxTrain, s.caps.MaxTrainBytes/stride))
	for accepted < len(lens) {
		n := min(full, len(lens)-accepted)
		s.part = transport.Outbound{Data: mem[accepted*stride:], Stride: stride, Count: n, Lens: lens[accepted : accepted+n]}
		k, err := s.inner.Send(&s.part)
		if accepted += k; err != nil || k < n {
			return accepted, err
		}
	}
	return accepted, nil
}

// Completed implements transport.Sender. Packets are copied, so it equals the number of packets accepted.
func (s *Sender) Completed() uint64 { return s.accepted }

// allocate allocates the memory to send from.
func (s *Sender) allocate() error {
	c := s.caps
	c.MaxTrainBytes = max(treeBytes, c.MaxTrainBytes)
	mem, err := s.t.Alloc(staging.Size(c))
	if err != nil {
		return err
	}
	s.staging.Bytes = mem
	s.signer.mu.Lock()
	defer s.signer.mu.Unlock()
	s.signer.memory[s] = mem
	return nil
}

// Close implements transport.Sender. Signer.Free frees the memory, from which packets may still be being sent.
func (s *Sender) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	idle := s.inner.Completed() == s.innerAccepted
	err := s.inner.Close()
	if s.signer.mu.Lock(); idle && s.staging.Bytes != nil {
		s.t.Free(s.staging.Bytes)
		delete(s.signer.memory, s)
	}
	s.signer.mu.Unlock()
	s.staging.Bytes = nil
	return err
}
