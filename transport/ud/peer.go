package ud

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/internal/train"
)

// source is what tells senders apart: their queue pair and the way to it. A
// publisher whose port gets another LID thus becomes another peer.
type source struct {
	gid  rdma.GID
	qpn  rdma.QPN
	slid rdma.LID
	sl   uint8
	path uint8
}

// peer is a sender to reply to.
type peer struct {
	ah  rdma.AH
	qpn rdma.QPN
}

// Retain implements transport.Transport. It makes an address handle from the
// packet's GRH area.
func (t *Transport) Retain(from transport.Source) (transport.Peer, error) {
	if t.closing.Load() {
		return 0, errClosed
	}
	s, i := t.rq.lent(uint64(from))
	if s == nil {
		return 0, fmt.Errorf("ud: source %d is of no lent train", from)
	}
	attr, err := rdma.ReplyAHAttr(t.verbs.local, &s.wc, t.rq.sges[i].Buf)
	if err != nil {
		t.received.PeersRefused.Add(1)
		return 0, named("reply address", err)
	}
	key := source{attr.GRH.DGID, s.wc.SrcQPN, s.wc.SLID, s.wc.SL, s.wc.DLIDPathBits}
	p, err := t.peers.Retain(key, peer{})
	if err != nil {
		t.received.PeersRefused.Add(1)
		return 0, fmt.Errorf("ud: %w", err)
	}
	v := t.peers.Get(p)
	if v.ah != nil {
		return p, nil
	}
	ah, err := t.slow.create(t, attr)
	if err != nil {
		t.peers.Forget(p)
		t.received.PeersRefused.Add(1)
		if errors.Is(err, syscall.ENOMEM) {
			return 0, fmt.Errorf("ud: %w: %w", transport.ErrPeerLimit, err)
		}
		return 0, named("address handle to a sender", err)
	}
	*v = peer{ah, key.qpn}
	return p, nil
}

// slowHandles bounds the time that the loop spends on making address handles to
// senders. On RoCE the kernel asks for the address of their network card, and
// waits up to a second for one that does not answer (core/addr.c,
// rdma_addr_find_l2_eth_by_grh), so that any member of a group could hold up the
// loop by inventing senders. Loop only.
type slowHandles struct {
	spent time.Duration // more than has been regained
	at    time.Duration // as of when
}

const (
	// handleShare of its time, as a fraction of one, the loop may spend so, and
	// handleBurst at once.
	handleShare = 10
	handleBurst = 100 * time.Millisecond
)

var errSlowHandles = fmt.Errorf("address handles to new senders took too much of the time lately: %w", transport.ErrBusy)

func (h *slowHandles) create(t *Transport, attr rdma.AHAttr) (rdma.AH, error) {
	now := t.cfg.Clock()
	h.spent = max(0, h.spent-(now-h.at)/handleShare)
	if h.at = now; h.spent >= handleBurst {
		return nil, errSlowHandles
	}
	ah, err := t.verbs.pd.CreateAH(attr)
	h.spent += t.cfg.Clock() - now
	return ah, err
}

// Forget implements transport.Transport.
func (t *Transport) Forget(p transport.Peer) {
	v := t.peers.Get(p)
	if v == nil || t.done.Load() {
		return
	}
	ah := v.ah
	if t.peers.Forget(p); t.peers.Get(p) == nil {
		t.sq.mu.Lock()
		t.sq.doom(ah)
		t.sq.mu.Unlock()
	}
}

// Reply implements transport.Transport. The packet is copied.
func (t *Transport) Reply(p transport.Peer, packet []byte) error {
	err := t.reply(p, packet)
	if err != nil {
		if err != errNoPeer {
			t.sent.Count(err)
		}
		return err
	}
	t.sent.Packets.Add(1)
	t.sent.Bytes.Add(uint64(len(packet)))
	t.sent.Calls.Add(1)
	return nil
}

func (t *Transport) reply(p transport.Peer, packet []byte) error {
	if t.closing.Load() {
		return errClosed
	}
	v := t.peers.Get(p)
	if v == nil {
		return errNoPeer
	}
	if err := train.CheckPacket(len(packet), t.caps.MaxPacket); err != nil {
		return err
	}
	q := &t.sq
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.room(1) < 1 {
		return errBusy
	}
	q.set(0, packet, false, 0)
	_, err := q.submit(nil, v.ah, v.qpn, rdma.UDPQKey, 1)
	return err
}
