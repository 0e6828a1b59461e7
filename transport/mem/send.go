package mem

import (
	"fmt"
	"sync/atomic"

	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/internal/grace"
	"github.com/fanfaremq/fanfare/transport/internal/inbox"
	"github.com/fanfaremq/fanfare/transport/internal/tally"
	"github.com/fanfaremq/fanfare/transport/internal/train"
)

// Sender sends to one group.
type Sender struct {
	t        *Transport
	index    int
	to       *group
	section  grace.Section
	closed   atomic.Bool
	accepted uint64
	sent     tally.Sent
}

var _ transport.Sender = (*Sender)(nil)

// NewSender implements transport.Transport. The sender is ready immediately.
func (t *Transport) NewSender(group int) (transport.Sender, error) {
	if err := t.check(group); err != nil {
		return nil, err
	}
	s := &Sender{t: t, index: group, to: t.net.group(group)}
	t.mu.Lock()
	t.senders[s] = struct{}{}
	t.mu.Unlock()
	if t.events.SenderOpened(group) {
		t.in.Wake()
	}
	return s, nil
}

// Send implements transport.Sender. It never returns transport.ErrBusy: packets that do not fit into a receiver's queue
// are lost for that receiver and counted there, as in a network.
func (s *Sender) Send(out *transport.Outbound) (int, error) {
	s.section.Enter()
	n, bytes, err := s.send(out)
	s.section.Exit()
	s.accepted += uint64(n)
	if n > 0 {
		s.sent.Packets.Add(uint64(n))
		s.sent.Bytes.Add(uint64(bytes))
		s.sent.Calls.Add(1)
	}
	return n, err
}

func (s *Sender) send(out *transport.Outbound) (packets, bytes int, err error) {
	if s.closed.Load() || s.t.closing.Load() {
		return 0, 0, errClosed
	}
	if err := train.Check(out); err != nil {
		s.sent.Errors.Add(1)
		return 0, 0, err
	}
	members := *s.to.members.Load()
	for packets < out.Count {
		run, err := train.Next(out, packets, s.t.cfg.MaxPacket, maxTrain, slotBytes)
		if err != nil {
			s.sent.Errors.Add(1)
			return packets, bytes, err
		}
		item := inbox.Item{Bytes: run.Bytes, SegmentSize: run.Size, Group: s.index, From: s.t.id}
		for _, m := range members {
			slot, mem, ok := m.in.Acquire()
			if !ok {
				m.received.Overflow.Add(uint64(run.Count))
				continue
			}
			run.Copy(mem, out, packets)
			m.in.Publish(slot, item)
		}
		packets += run.Count
		bytes += run.Bytes
	}
	return packets, bytes, nil
}

// Completed implements transport.Sender. Sending is a copy, so it equals the number of packets accepted.
func (s *Sender) Completed() uint64 { return s.accepted }

// Close implements transport.Sender.
func (s *Sender) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	t := s.t
	t.mu.Lock()
	delete(t.senders, s)
	t.sent.Fold(&s.sent)
	t.mu.Unlock()
	t.events.SenderClosed(s.index)
	t.in.Wake()
	return nil
}

// Retain implements transport.Transport.
func (t *Transport) Retain(from transport.Source) (transport.Peer, error) {
	if t.closing.Load() {
		return 0, errClosed
	}
	p, err := t.peers.Retain(uint64(from), t.net.endpoint(uint64(from)))
	if err != nil {
		t.received.PeersRefused.Add(1)
		return 0, fmt.Errorf("mem: %w", err)
	}
	return p, nil
}

// SourceAddress implements transport.Transport: "mem://name#7", the seventh endpoint.
func (t *Transport) SourceAddress(from transport.Source) string {
	if t.closing.Load() {
		return ""
	}
	return fmt.Sprintf("mem://%s#%d", t.net.name, uint64(from))
}

// PeerAddress implements transport.Transport.
func (t *Transport) PeerAddress(p transport.Peer) string {
	if id, ok := t.peers.Key(p); ok {
		return t.SourceAddress(transport.Source(id))
	}
	return ""
}

// Forget implements transport.Transport.
func (t *Transport) Forget(p transport.Peer) { t.peers.Forget(p) }

// Reply implements transport.Transport. A reply to an endpoint that has closed is lost without an
// error, as in a network.
func (t *Transport) Reply(p transport.Peer, packet []byte) error {
	t.replying.Enter()
	err := t.reply(p, packet)
	t.replying.Exit()
	return err
}

func (t *Transport) reply(p transport.Peer, packet []byte) error {
	if t.closing.Load() {
		return errClosed
	}
	peer := t.peers.Get(p)
	if peer == nil {
		return errNoPeer
	}
	if err := train.CheckPacket(len(packet), t.cfg.MaxPacket); err != nil {
		return err
	}
	t.sent.Packets.Add(1)
	t.sent.Bytes.Add(uint64(len(packet)))
	t.sent.Calls.Add(1)
	to := *peer
	if to == nil || to.closing.Load() {
		return nil
	}
	slot, mem, ok := to.in.Acquire()
	if !ok {
		to.received.Overflow.Add(1)
		return nil
	}
	copy(mem, packet)
	to.in.Publish(slot, inbox.Item{Bytes: len(packet), SegmentSize: len(packet), Group: transport.Unicast, From: t.id})
	return nil
}

var errNoPeer = fmt.Errorf("mem: %w", transport.ErrNoPeer)
