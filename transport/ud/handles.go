package ud

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/transport"
)

// handles creates address handles for senders. If that can take long (rdma.AHBeginner) the provider creates them in the
// background; until then the latest replies to the peer are queued. Any member of a group can forge senders, and
// handles for those take longest, so at most maxMaking are created at a time. Loop only, except ready.
type handles struct {
	beginner rdma.AHBeginner // nil: the provider creates handles synchronously
	making   []transport.Peer
	// ending are unwanted handles that the provider is still creating.
	ending []rdma.PendingAH
	spare  []*making
	ready  atomic.Bool // a handle may be finished
}

const (
	maxMaking = 64
	// retryAfter is the time after which a reply retries to create a handle that failed: the peer may have been down.
	retryAfter = time.Second
	// keepPackets and keepMTUs bound the replies that are queued for a peer.
	keepPackets = 16
	keepMTUs    = 8
)

var (
	errManyHandles = fmt.Errorf("ud: %d address handles are being created: %w", maxMaking, transport.ErrBusy)
	errNoHandle    = fmt.Errorf("ud: address handle for a peer could not be created: %w", transport.ErrBusy)
)

// noHandle is the error of replies to a peer after its handle could not be created because of err.
func noHandle(err error) error { return fmt.Errorf("%w: %w", errNoHandle, err) }

// making is a handle being created, with the latest replies that wait for it.
type making struct {
	attr    rdma.AHAttr
	pending rdma.PendingAH
	data    []byte // all queued replies, in order
	lens    [keepPackets]int
	count   int
}

// keep queues a reply, and returns how many older ones it replaced.
func (m *making) keep(packet []byte) (dropped int) {
	for m.count == len(m.lens) || len(m.data)+len(packet) > cap(m.data) {
		m.drop()
		dropped++
	}
	m.data = append(m.data, packet...)
	m.lens[m.count] = len(packet)
	m.count++
	return dropped
}

// drop removes the oldest reply.
func (m *making) drop() {
	m.data = m.data[:copy(m.data, m.data[m.lens[0]:])]
	copy(m.lens[:], m.lens[1:m.count])
	m.count--
}

// make creates the handle of a new peer, or begins to.
func (h *handles) make(t *Transport, p transport.Peer, v *peer, attr rdma.AHAttr) (err error) {
	if h.beginner == nil {
		v.ah, err = t.verbs.pd.CreateAH(attr)
		return err
	}
	if len(h.making)+len(h.ending) >= maxMaking {
		return errManyHandles
	}
	var m *making
	if last := len(h.spare) - 1; last >= 0 {
		m, h.spare = h.spare[last], h.spare[:last]
	} else {
		m = &making{data: make([]byte, 0, keepMTUs*t.verbs.mtu)}
	}
	m.attr = attr
	if m.pending, err = h.beginner.BeginCreateAH(attr, t.handleOver); err != nil {
		h.recycle(m)
		return err
	}
	v.making = m
	h.making = append(h.making, p)
	return nil
}

// recycle keeps m for the next handle.
func (h *handles) recycle(m *making) {
	m.pending, m.data, m.count = nil, m.data[:0], 0
	h.spare = append(h.spare, m)
}

// handleOver is called by the provider, in one of its goroutines.
func (t *Transport) handleOver() {
	t.handles.ready.Store(true)
	t.Wake()
}

// assignHandles assigns finished handles to their peers, and sends the replies that waited for them.
func (t *Transport) assignHandles() {
	h := &t.handles
	h.ready.Store(false)
	h.prune()
	left := h.making[:0]
	for _, p := range h.making {
		v := t.peers.Get(p)
		m := v.making
		ah, err := m.pending.AH()
		if errors.Is(err, rdma.ErrNoEvent) {
			left = append(left, p)
			continue
		}
		v.making = nil
		if err != nil {
			v.attr, v.due, v.err = m.attr, t.cfg.Clock()+retryAfter, noHandle(err)
			t.counts.received.PeersRefused.Add(1)
			t.counts.sent.Busy.Add(uint64(m.count))
			report.NoAddressHandle.Log(t.cfg.Logger, "sender", m.attr.GRH.DGID, "err", err)
		} else {
			v.ah, v.err = ah, nil
			for ; m.count > 0; m.drop() {
				t.count(t.postReply(v, m.data[:m.lens[0]]), m.lens[0])
			}
		}
		h.recycle(m)
	}
	h.making = left
}

// prune removes completed handles from ending.
func (h *handles) prune() {
	left := h.ending[:0]
	for _, e := range h.ending {
		if !e.Done() {
			left = append(left, e)
		}
	}
	clear(h.ending[len(left):])
	h.ending = left
}

// wait queues a reply until the peer's handle exists. After a failure it also returns the error.
func (h *handles) wait(t *Transport, p transport.Peer, v *peer, packet []byte) (kept bool, err error) {
	if v.making == nil {
		if t.cfg.Clock() < v.due {
			return false, v.err
		}
		if err := h.make(t, p, v, v.attr); err != nil {
			v.due, v.err = t.cfg.Clock()+retryAfter, noHandle(err)
			return false, v.err
		}
	}
	t.counts.sent.Busy.Add(uint64(v.making.keep(packet)))
	return true, v.err // of the last attempt; the result of this one is not known yet
}

// cancel abandons the handle of a forgotten peer.
func (h *handles) cancel(p transport.Peer, m *making) {
	for i := range h.making {
		if h.making[i] == p {
			h.making = append(h.making[:i], h.making[i+1:]...)
			break
		}
	}
	m.pending.Cancel()
	if !m.pending.Done() {
		h.ending = append(h.ending, m.pending)
	}
	h.recycle(m)
}

// stop abandons all handles, for the end of the transport.
func (h *handles) stop(t *Transport) {
	for len(h.making) > 0 {
		p := h.making[0]
		v := t.peers.Get(p)
		m := v.making
		v.making = nil
		h.cancel(p, m)
	}
}

// over reports, after stop, whether the provider is creating none.
func (h *handles) over() bool {
	h.prune()
	return len(h.ending) == 0
}
