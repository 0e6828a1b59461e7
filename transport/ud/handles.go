package ud

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/internal/peers"
	"github.com/fanfaremq/fanfare/transport/internal/tally"
	"github.com/fanfaremq/fanfare/transport/internal/train"
)

// source identifies a sender: its queue pair and the path to it. So a publisher becomes another peer when its port gets
// another LID.
type source struct {
	gid  rdma.GID
	qpn  rdma.QPN
	slid rdma.LID
	sl   uint8
	path uint8
}

// peer is a sender to reply to.
type peer struct {
	ah  rdma.AH // nil: being created, or failed
	qpn rdma.QPN
	// Without a handle: making while the provider is creating it, otherwise when and with which attributes it is retried.
	making *making
	due    time.Duration
	err    error // why the last attempt failed
	attr   rdma.AHAttr
}

// handles are the peers with their address handles. If creating a handle can take long (rdma.AHBeginner) the provider
// does it in the background; until then the latest replies to the peer are queued. Any member of a group can forge
// senders, and handles for those take longest, so at most maxMaking are created at a time. Loop only, except ready.
type handles struct {
	peers  *peers.Table[source, peer]
	pd     rdma.PD
	send   *sendQueue
	waiter *waiter
	port   *portWatch
	counts *tally.Received
	clock  func() time.Duration
	log    *slog.Logger
	mtu    int
	sent   tally.Sent // replies

	beginner rdma.AHBeginner // pd, if it is one; nil: the provider creates handles synchronously
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

// retain makes a peer of the source of a packet, and an address handle to it, or begins to.
func (h *handles) retain(wc *rdma.WorkCompletion, attr rdma.AHAttr) (transport.Peer, error) {
	p, err := h.peers.Retain(source{attr.GRH.DGID, wc.SrcQPN, wc.SLID, wc.SL, wc.DLIDPathBits}, peer{qpn: wc.SrcQPN})
	if err != nil {
		return 0, fmt.Errorf("ud: %w", err)
	}
	v := h.peers.Get(p)
	if v.ah != nil || v.making != nil || v.due != 0 {
		return p, nil
	}
	if err := h.create(p, v, attr); err != nil {
		h.peers.Forget(p)
		if errors.Is(err, syscall.ENOMEM) {
			return 0, fmt.Errorf("ud: %w: %w", transport.ErrPeerLimit, err)
		}
		return 0, named("address handle to a sender", err)
	}
	return p, nil
}

// address is the text of a peer's address.
func (h *handles) address(p transport.Peer) string {
	if key, ok := h.peers.Key(p); ok {
		return address{key.gid, key.qpn}.String()
	}
	return ""
}

// forget forgets a peer once.
func (h *handles) forget(p transport.Peer) {
	v := h.peers.Get(p)
	if v == nil {
		return
	}
	ah, m := v.ah, v.making
	if h.peers.Forget(p); h.peers.Get(p) != nil {
		return
	}
	if ah != nil {
		h.send.close(ah)
	}
	if m != nil {
		h.cancel(p, m)
	}
}

// reply sends a packet. While the peer's address handle does not exist yet the latest replies wait for it; replaced
// replies are counted as with a full send queue.
func (h *handles) reply(p transport.Peer, packet []byte) error {
	v := h.peers.Get(p)
	if v == nil {
		return errNoPeer
	}
	if err := train.CheckPacket(len(packet), h.mtu); err != nil {
		return err
	}
	if h.port.away != nil {
		return errAway
	}
	if v.ah != nil {
		return h.transmit(v, packet)
	}
	err := h.hold(p, v, packet)
	if v.making == nil {
		h.sent.CountReply(err)
	}
	return err
}

// transmit sends a packet to a peer that has a handle, and counts it.
func (h *handles) transmit(v *peer, packet []byte) error {
	err := h.send.reply(v.ah, v.qpn, packet)
	if err != nil {
		h.sent.CountReply(err)
		return err
	}
	h.sent.Packets.Add(1)
	h.sent.Bytes.Add(uint64(len(packet)))
	h.sent.Calls.Add(1)
	return nil
}

// create makes a peer's address handle, or begins to.
func (h *handles) create(p transport.Peer, v *peer, attr rdma.AHAttr) (err error) {
	if h.beginner == nil {
		v.ah, err = h.pd.CreateAH(attr)
		return err
	}
	if len(h.making)+len(h.ending) >= maxMaking {
		return errManyHandles
	}
	var m *making
	if last := len(h.spare) - 1; last >= 0 {
		m, h.spare = h.spare[last], h.spare[:last]
	} else {
		m = &making{data: make([]byte, 0, keepMTUs*h.mtu)}
	}
	m.attr = attr
	if m.pending, err = h.beginner.BeginCreateAH(attr, h.finished); err != nil {
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

// finished is called by the provider, in one of its goroutines.
func (h *handles) finished() {
	h.ready.Store(true)
	h.waiter.wake()
}

// assign assigns finished handles to their peers, and sends the replies that waited for them.
func (h *handles) assign() {
	h.ready.Store(false)
	h.ending = slices.DeleteFunc(h.ending, rdma.PendingAH.Done)
	left := h.making[:0]
	for _, p := range h.making {
		v := h.peers.Get(p)
		m := v.making
		ah, err := m.pending.AH()
		if errors.Is(err, rdma.ErrNoEvent) {
			left = append(left, p)
			continue
		}
		v.making = nil
		if err != nil {
			v.attr, v.due, v.err = m.attr, h.clock()+retryAfter, noHandle(err)
			h.counts.PeersRefused.Add(1)
			h.sent.Busy.Add(uint64(m.count))
			report.NoAddressHandle.Log(h.log, "sender", m.attr.GRH.DGID, "err", err)
		} else {
			v.ah, v.err = ah, nil
			for ; m.count > 0; m.drop() {
				_ = h.transmit(v, m.data[:m.lens[0]]) // it is counted
			}
		}
		h.recycle(m)
	}
	h.making = left
}

// hold queues a reply until the peer's handle exists. After a failure it also returns the error. The reply is not
// queued if no attempt is in progress.
func (h *handles) hold(p transport.Peer, v *peer, packet []byte) error {
	if v.making == nil {
		if h.clock() < v.due {
			return v.err
		}
		if err := h.create(p, v, v.attr); err != nil {
			v.due, v.err = h.clock()+retryAfter, noHandle(err)
			return v.err
		}
	}
	h.sent.Busy.Add(uint64(v.making.keep(packet)))
	return v.err // of the last attempt; the result of this one is not known yet
}

// cancel abandons the handle of a forgotten peer.
func (h *handles) cancel(p transport.Peer, m *making) {
	i := slices.Index(h.making, p)
	h.making = slices.Delete(h.making, i, i+1)
	m.pending.Cancel()
	if !m.pending.Done() {
		h.ending = append(h.ending, m.pending)
	}
	h.recycle(m)
}

// stop abandons the handles being created, for the end of the transport.
func (h *handles) stop() {
	for len(h.making) > 0 {
		p := h.making[0]
		v := h.peers.Get(p)
		m := v.making
		v.making = nil
		h.cancel(p, m)
	}
}

// stopped reports, after stop, whether the provider is creating none.
func (h *handles) stopped() bool {
	h.ending = slices.DeleteFunc(h.ending, rdma.PendingAH.Done)
	return len(h.ending) == 0
}

// end forgets all peers.
func (h *handles) end() {
	for p := range h.peers.All() {
		if p.ah != nil {
			h.send.close(p.ah)
		}
	}
	h.peers = peers.New[source, peer](1)
}
