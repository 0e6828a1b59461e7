package udp

import (
	"fmt"
	"sync/atomic"

	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/internal/grace"
	"github.com/fanfaremq/fanfare/transport/internal/tally"
	"github.com/fanfaremq/fanfare/transport/internal/train"
)

var _ transport.Sender = (*Sender)(nil)

// errAway is the error of Send and Reply while the interface is removed or down.
var errAway = fmt.Errorf("udp: the interface is removed or down: %w", transport.ErrNotReady)

// Sender sends to one group.
type Sender struct {
	t        *Transport
	group    int
	at       *attachment // attachment for which out was set
	out      outlet      // the part that depends on the system
	section  grace.Section
	closed   atomic.Bool
	accepted uint64
	sent     tally.Sent
}

// NewSender implements transport.Transport. Sending needs no membership, so the sender is ready immediately, unless the
// interface is removed or down.
func (t *Transport) NewSender(group int) (transport.Sender, error) {
	if err := t.check(group); err != nil {
		return nil, err
	}
	s := &Sender{t: t, group: group}
	s.aim(t.at.Load())
	t.mu.Lock()
	t.senders[s] = struct{}{}
	t.mu.Unlock()
	if t.events.SenderOpened(group) {
		t.Wake()
	}
	return s, nil
}

// aim sets the address to send to, which for link-local groups depends on the interface.
func (s *Sender) aim(at *attachment) {
	s.at = at
	s.out.aim(s.t.groupAddr(s.group), &at.link)
}

// Send implements transport.Sender. It returns transport.ErrNotReady while the interface is removed or down. In the
// portable implementation package net waits if the socket buffer is full, so that ErrBusy is rare and Send may block
// briefly.
func (s *Sender) Send(out *transport.Outbound) (int, error) {
	s.section.Enter()
	n, bytes, err := s.send(out)
	s.section.Exit()
	s.accepted += uint64(n)
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
	// After Enter: the closing goroutine sets the flag before it checks the sections.
	if s.closed.Load() || s.t.closing.Load() {
		return 0, 0, errClosed
	}
	if err := train.Check(out); err != nil {
		return 0, 0, err
	}
	if at := s.t.at.Load(); at != s.at {
		s.aim(at)
	}
	if s.at.gone {
		return 0, 0, errAway
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

// Completed implements transport.Sender. The kernel copies packets, so it equals the number of packets accepted.
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
	t.events.SenderClosed(s.group)
	t.Wake()
	return nil
}
