package ud

import (
	"fmt"
	"sync/atomic"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/internal/tally"
	"github.com/fanfaremq/fanfare/transport/internal/train"
)

// route is the destination of a group's senders. It is immutable.
type route struct {
	ah   rdma.AH
	qkey rdma.QKey
	err  error // the join failed
}

// Sender sends to one group.
type Sender struct {
	t      *Transport
	group  int
	route  *atomic.Pointer[route]
	closed atomic.Bool
	// accepted and last are used by the sender's goroutine only.
	accepted uint64
	last     *region
	reply    []byte // buffer of ReadReplies; from and qpn are the source of its packet
	from     rdma.GID
	qpn      rdma.QPN
	// completed counts completed packets; the goroutine that reaps adds to it.
	completed atomic.Uint64
	sent      tally.Sent
}

var _ transport.Sender = (*Sender)(nil)

// NewSender implements transport.Transport. The next Poll begins to join the group, send-only.
func (t *Transport) NewSender(group int) (transport.Sender, error) {
	if err := t.check(group); err != nil {
		return nil, err
	}
	s := &Sender{t: t, group: group, route: &t.routes[group]}
	t.senders.mu.Lock()
	t.senders.all[s] = struct{}{}
	if t.senders.inGroup[group]++; t.senders.inGroup[group] == 1 {
		t.forgetFault(group)
		t.change(group)
	}
	t.senders.mu.Unlock()
	t.Wake()
	return s, nil
}

// forgetFault clears the error of the last attempt to join a group: until the next attempt fails its senders return
// ErrNotReady.
func (t *Transport) forgetFault(group int) {
	r := &t.routes[group]
	if old := r.Load(); old != nil && old.err != nil {
		r.CompareAndSwap(old, nil)
	}
}

// change records that the loop must check the senders of a group. The caller holds mu.
func (t *Transport) change(group int) {
	t.senders.changed = append(t.senders.changed, group)
	t.senders.dirty.Store(true)
}

// Close implements transport.Sender.
func (s *Sender) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	t := s.t
	t.senders.mu.Lock()
	delete(t.senders.all, s)
	t.counts.sent.Fold(&s.sent)
	if t.senders.inGroup[s.group]--; t.senders.inGroup[s.group] == 0 {
		delete(t.senders.inGroup, s.group)
		t.change(s.group)
	}
	t.senders.mu.Unlock()
	t.Wake()
	return nil
}

// Send implements transport.Sender. The device reads packets in memory of Transport.Alloc after Send has returned,
// until Completed includes them; others are copied.
func (s *Sender) Send(out *transport.Outbound) (int, error) {
	if s.closed.Load() || s.t.closing.Load() {
		return 0, errClosed
	}
	if err := train.Check(out); err != nil {
		s.sent.Errors.Add(1)
		return 0, err
	}
	sent := 0
	for sent < out.Count {
		n, bytes, err := s.send(out, sent)
		if n > 0 {
			sent += n
			s.sent.Packets.Add(uint64(n))
			s.sent.Bytes.Add(uint64(bytes))
			s.sent.Calls.Add(1)
		}
		if err != nil {
			s.accepted += uint64(sent)
			s.sent.Count(err)
			return sent, err
		}
	}
	s.accepted += uint64(sent)
	return sent, nil
}

// send posts a list of packets, beginning with packet from.
func (s *Sender) send(out *transport.Outbound, from int) (packets, bytes int, err error) {
	t, q := s.t, &s.t.sq
	good, fault := s.good(out, from)
	if good == 0 {
		return 0, 0, fault
	}
	lkey, registered := uint32(0), false
	if r := t.memory.find(s.last, out.Data); r != nil {
		s.last, lkey, registered = r, r.lkey, true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.dead {
		return 0, 0, errClosed
	}
	// Under mu, because the loop closes the handle under mu.
	r := s.route.Load()
	switch {
	case r == nil:
		return 0, 0, errNotReady
	case r.err != nil:
		return 0, 0, r.err
	}
	n := min(good, q.room(good))
	if n <= 0 {
		t.notifySends()
		return 0, 0, errBusy
	}
	for i := range n {
		data := out.Data[(from+i)*out.Stride:][:out.Lens[from+i]]
		q.set(i, data, registered, lkey)
		bytes += len(data)
	}
	n, err = q.submit(s, r.ah, rdma.MulticastQPN, r.qkey, n)
	if err != nil {
		bytes = 0
		for _, l := range out.Lens[from : from+n] {
			bytes += int(l)
		}
	}
	if q.posted.Load()-q.retired.Load() >= q.depth/4 {
		t.notifySends()
	}
	return n, bytes, err
}

// good is how many packets, beginning with packet from, can be posted at once; if none, the error says why.
func (s *Sender) good(out *transport.Outbound, from int) (int, error) {
	lens := out.Lens[from:out.Count]
	for i, l := range lens[:min(len(lens), maxTrain)] {
		err := train.CheckPacket(int(l), s.t.caps.MaxPacket)
		if err == nil && int(l) > out.Stride && out.Count > 1 {
			err = fmt.Errorf("transport: packet of %d bytes is longer than its train's stride of %d", l, out.Stride)
		}
		if err != nil {
			return i, err
		}
	}
	return min(len(lens), maxTrain), nil
}

// Completed implements transport.Sender: it polls for completions.
func (s *Sender) Completed() uint64 {
	if n := s.completed.Load(); n == s.accepted {
		return n
	}
	q := &s.t.sq
	q.mu.Lock()
	if !q.dead {
		q.reap()
	}
	q.mu.Unlock()
	return s.completed.Load()
}

var errNotReady = fmt.Errorf("ud: %w", transport.ErrNotReady)
