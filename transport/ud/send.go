package ud

import (
	"fmt"
	"sync"
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

// senders are the open senders, and the routes of all groups.
type senders struct {
	routes []atomic.Pointer[route] // by group
	waiter *waiter

	mu      sync.Mutex
	all     map[*Sender]struct{} // under mu
	inGroup map[int]int          // under mu; number of senders of each group
	changed []int                // under mu; groups with new or closed senders
	dirty   atomic.Bool          // changed is not empty
	closed  tally.Sent           // counts of closed senders
}

// add adds a sender.
func (s *senders) add(snd *Sender) {
	s.mu.Lock()
	s.all[snd] = struct{}{}
	if s.inGroup[snd.group]++; s.inGroup[snd.group] == 1 {
		s.forgetFault(snd.group)
		s.change(snd.group)
	}
	s.mu.Unlock()
	s.waiter.wake()
}

// remove removes a sender.
func (s *senders) remove(snd *Sender) {
	s.mu.Lock()
	delete(s.all, snd)
	s.closed.Fold(&snd.sent)
	if s.inGroup[snd.group]--; s.inGroup[snd.group] == 0 {
		delete(s.inGroup, snd.group)
		s.change(snd.group)
	}
	s.mu.Unlock()
	s.waiter.wake()
}

// change records that the loop must check the senders of a group. The caller holds mu.
func (s *senders) change(group int) {
	s.changed = append(s.changed, group)
	s.dirty.Store(true)
}

// changes returns the groups that the loop must check, and whether they have senders.
func (s *senders) changes() (groups []int, wanted []bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	groups, s.changed = s.changed, nil
	s.dirty.Store(false)
	wanted = make([]bool, len(groups))
	for i, g := range groups {
		wanted[i] = s.inGroup[g] > 0
	}
	return groups, wanted
}

// forgetFault clears the error of the last attempt to join a group: until the next attempt fails its senders return
// ErrNotReady.
func (s *senders) forgetFault(group int) {
	r := &s.routes[group]
	if old := r.Load(); old != nil && old.err != nil {
		r.CompareAndSwap(old, nil)
	}
}

// detach removes the route of a group. Its address handle is closed when all sends that use it have completed.
func (s *senders) detach(group int, q *sendQueue) {
	if r := s.routes[group].Swap(nil); r != nil && r.ah != nil {
		q.close(r.ah)
	}
}

// addTo adds what was sent.
func (s *senders) addTo(to *transport.Stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed.AddTo(&to.Transport)
	for snd := range s.all {
		snd.sent.AddTo(&to.Transport)
	}
}

// Sender sends to one group.
type Sender struct {
	senders   *senders
	group     int
	route     *atomic.Pointer[route]
	queue     *sendQueue
	memory    *memory
	replies   *recvQueue
	maxPacket int
	ending    *atomic.Bool // the transport is closing
	closed    atomic.Bool
	// accepted and last are used by the sender's goroutine only.
	accepted uint64
	last     *region
	reply    []byte  // buffer of ReadReplies
	from     address // of the packet in reply
	// completed counts completed packets; the goroutine that reaps adds to it.
	completed atomic.Uint64
	sent      tally.Sent
}

// Close implements transport.Sender.
func (s *Sender) Close() error {
	if !s.closed.Swap(true) {
		s.senders.remove(s)
	}
	return nil
}

// Send implements transport.Sender. The device reads packets in memory of Transport.Alloc after Send has returned,
// until Completed includes them; others are copied.
func (s *Sender) Send(out *transport.Outbound) (int, error) {
	if s.closed.Load() || s.ending.Load() {
		return 0, errClosed
	}
	if err := train.Check(out); err != nil {
		s.sent.Errors.Add(1)
		return 0, err
	}
	sent := 0
	for sent < out.Count {
		n, bytes, err := s.postList(out, sent)
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

// postList posts a list of packets, beginning with packet from.
func (s *Sender) postList(out *transport.Outbound, from int) (packets, bytes int, err error) {
	q := s.queue
	good, fault := s.good(out, from)
	if good == 0 {
		return 0, 0, fault
	}
	lkey, registered := uint32(0), false
	if r := s.memory.find(s.last, out.Data); r != nil {
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
		q.notify()
		return 0, 0, errBusy
	}
	for i := range n {
		data := out.Data[(from+i)*out.Stride:][:out.Lens[from+i]]
		q.set(i, data, registered, lkey)
		bytes += len(data)
	}
	n, err = q.submit(&s.completed, r.ah, rdma.MulticastQPN, r.qkey, n)
	if err != nil {
		bytes = 0
		for _, l := range out.Lens[from : from+n] {
			bytes += int(l)
		}
	}
	if q.posted.Load()-q.retired.Load() >= q.depth/4 {
		q.notify()
	}
	return n, bytes, err
}

// good is how many packets, beginning with packet from, can be posted at once; if none, the error says why.
func (s *Sender) good(out *transport.Outbound, from int) (int, error) {
	lens := out.Lens[from:out.Count]
	for i, l := range lens[:min(len(lens), maxTrain)] {
		err := train.CheckPacket(int(l), s.maxPacket)
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
	s.queue.poll()
	return s.completed.Load()
}

// ReadReplies implements transport.ReplyReader. It reads only if the transport has never joined a group as receiver, so
// that only replies arrive. Otherwise it leaves all packets to the loop.
func (s *Sender) ReadReplies(handle func(packet []byte)) {
	if s.closed.Load() || s.ending.Load() || s.replies.groups.Load() {
		return
	}
	if s.reply == nil {
		s.reply = make([]byte, s.maxPacket)
	}
	packets, bytes := 0, 0
	for range batch {
		n, from := s.replies.readReply(s.reply)
		if n == 0 {
			break
		}
		s.from = from
		handle(s.reply[:n:n])
		packets++
		bytes += n
	}
	if packets > 0 {
		s.replies.countRead(packets, bytes)
	}
}

// ReplyAddress implements transport.ReplyReader.
func (s *Sender) ReplyAddress() string { return s.from.String() }
