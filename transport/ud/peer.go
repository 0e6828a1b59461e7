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

// Retain implements transport.Transport. It creates an address handle from the packet's GRH area, or begins to
// (handles.go).
func (t *Transport) Retain(from transport.Source) (transport.Peer, error) {
	if t.closing.Load() {
		return 0, errClosed
	}
	s, i := t.rq.lentSlot(uint64(from))
	if s == nil {
		return 0, fmt.Errorf("ud: source %d does not belong to a lent train", from)
	}
	attr, err := rdma.ReplyAHAttr(t.verbs.local, &s.wc, t.rq.sges[i].Buf)
	if err != nil {
		t.counts.received.PeersRefused.Add(1)
		return 0, named("reply address", err)
	}
	key := source{attr.GRH.DGID, s.wc.SrcQPN, s.wc.SLID, s.wc.SL, s.wc.DLIDPathBits}
	p, err := t.peers.Retain(key, peer{})
	if err != nil {
		t.counts.received.PeersRefused.Add(1)
		return 0, fmt.Errorf("ud: %w", err)
	}
	v := t.peers.Get(p)
	if v.ah != nil || v.making != nil || v.due != 0 {
		return p, nil
	}
	v.qpn = key.qpn
	if err := t.handles.make(t, p, v, attr); err != nil {
		t.peers.Forget(p)
		t.counts.received.PeersRefused.Add(1)
		if errors.Is(err, syscall.ENOMEM) {
			return 0, fmt.Errorf("ud: %w: %w", transport.ErrPeerLimit, err)
		}
		return 0, named("address handle to a sender", err)
	}
	return p, nil
}

// SourceAddress implements transport.Transport: "[fe80::2:c903:0:1]:qp17".
func (t *Transport) SourceAddress(from transport.Source) string {
	s, i := t.rq.lentSlot(uint64(from))
	if s == nil || t.closing.Load() {
		return ""
	}
	h, ok := rdma.ParseGRH(t.verbs.local.LinkLayer, t.rq.sges[i].Buf)
	if !ok {
		return ""
	}
	return addressText(h.Src, s.wc.SrcQPN)
}

// PeerAddress implements transport.Transport.
func (t *Transport) PeerAddress(p transport.Peer) string {
	if key, ok := t.peers.Key(p); ok {
		return addressText(key.gid, key.qpn)
	}
	return ""
}

// addressText is the text of a queue pair's address.
func addressText(gid rdma.GID, qpn rdma.QPN) string {
	return fmt.Sprintf("[%v]:qp%d", gid, uint32(qpn))
}

// Forget implements transport.Transport.
func (t *Transport) Forget(p transport.Peer) {
	v := t.peers.Get(p)
	if v == nil || t.done.Load() {
		return
	}
	ah, m := v.ah, v.making
	if t.peers.Forget(p); t.peers.Get(p) != nil {
		return
	}
	if ah != nil {
		t.sq.mu.Lock()
		t.sq.closeLater(ah)
		t.sq.mu.Unlock()
	}
	if m != nil {
		t.handles.cancel(p, m)
	}
}

// Reply implements transport.Transport. The packet is copied. While the peer's address handle does not exist yet the
// latest replies wait for it; replaced replies are counted as with a full send queue.
func (t *Transport) Reply(p transport.Peer, packet []byte) error {
	if t.closing.Load() {
		return errClosed
	}
	v := t.peers.Get(p)
	if v == nil {
		return errNoPeer
	}
	err := train.CheckPacket(len(packet), t.caps.MaxPacket)
	kept := false // then it is counted when it is sent
	switch {
	case err == nil && t.port.away != nil:
		err = errAway
	case err == nil && v.ah == nil:
		kept, err = t.handles.wait(t, p, v, packet)
	case err == nil:
		err = t.postReply(v, packet)
	}
	if !kept {
		t.count(err, len(packet))
	}
	return err
}

// count counts a reply: sent if err is nil.
func (t *Transport) count(err error, bytes int) {
	if err != nil {
		t.counts.sent.CountReply(err)
		return
	}
	t.counts.sent.Packets.Add(1)
	t.counts.sent.Bytes.Add(uint64(bytes))
	t.counts.sent.Calls.Add(1)
}

// postReply posts a packet to a peer that has a handle.
func (t *Transport) postReply(v *peer, packet []byte) error {
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
