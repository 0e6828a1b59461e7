package cli

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"
	"time"

	"github.com/fanfaremq/fanfare/internal/fabricurl"
	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/rdma"
)

// mckeySide is the sender or the receiver: an id, its queue pair, and what belongs to them.
type mckeySide struct {
	m    *mckey
	role string
	host *fabricurl.Host

	ch        rdma.EventChannel
	id        rdma.ID
	pd        rdma.PD
	mem       []byte
	slotBytes int
	mr        rdma.MR
	cq        rdma.CQ
	qp        rdma.QP
	local     rdma.Local
	ud        rdma.UDParam
	ah        rdma.AH
	joined    bool
	ends      []func(context.Context) error // what was begun, in order

	messages, strange uint64 // sent or received; received, but not as mckey's
}

// Queue lengths: what of a burst a receiver can hold, and what a sender has under way.
const (
	mckeyRecvSlots = 1024
	mckeySendDepth = 64
)

var errMckeyTimeout = errors.New("time is up")

// member is how a side joins. A send-only member attaches no queue pair.
func (s *mckeySide) member() rdma.JoinFlags {
	if s.role == roleSender && s.m.sendOnly {
		return rdma.JoinSendOnlyFullMember
	}
	return rdma.JoinFullMember
}

// join opens the side and joins the group. It returns the group that the other side joins: the one that the subnet
// manager made up.
func (s *mckeySide) join(ctx context.Context, group rdma.Addr) (rdma.Addr, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.m.timeout, fmt.Errorf("no answer within %v", s.m.timeout))
	defer cancel()
	if err := s.open(); err != nil {
		return group, err
	}
	if err := s.joinGroup(ctx, group); err != nil {
		err = cmp.Or(context.Cause(ctx), err)
		return group, &exitError{exitNoGroup, fmt.Errorf("group %v is not joined: %w%s", group, err, s.joinHint(err))}
	}
	s.joined = true
	ah := &s.ud.AHAttr
	if group.Family == rdma.FamilyIB {
		group = rdma.IBAddr(ah.GRH.DGID)
	}
	j := mckeyJoin{
		"join", s.role, s.pd.Device().Name(), s.id.Port(), s.local.LinkLayer.String(), s.qp.QPN().String(),
		s.member().String(), ah.GRH.DGID.String(), ah.DLID.String(), s.ud.QPN.String(), s.ud.QKey.String(),
		ah.SL, ah.GRH.SGIDIndex, ah.GRH.HopLimit,
	}
	return group, s.m.write(&j, "%[1]s: joined as %s with QPN %s on %s port %d (%s)\n"+
		"%[1]s: joined dgid: %[7]s mlid %s sl %d, qpn %s, qkey %s, sgid_index %d, hop_limit %d\n",
		s.role, j.Member, j.LocalQPN, j.Device, j.Port, j.LinkLayer,
		j.DGID, j.MLID, j.SL, j.QPN, j.QKey, j.SGIDIndex, j.HopLimit)
}

// atEnd has close call f, and closes has it close o, before what was begun earlier, as verbs want it.
func (s *mckeySide) atEnd(f func(context.Context) error) { s.ends = append(s.ends, f) }
func (s *mckeySide) closes(o io.Closer)                  { s.atEnd(func(context.Context) error { return o.Close() }) }

// close ends everything that was begun, and returns the first error. Leaving ends by itself unless something is
// badly wrong.
func (s *mckeySide) close() (first error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, end := range slices.Backward(s.ends) {
		if err := end(ctx); err != nil && first == nil {
			first = fmt.Errorf("%s: closing: %w", s.role, err)
		}
	}
	return first
}

// open binds the id to the device and makes queue pair and memory.
func (s *mckeySide) open() (err error) {
	if s.ch, err = s.host.NewEventChannel(); err != nil {
		return &exitError{exitNoDevice, err}
	}
	s.closes(s.ch)
	if s.id, err = s.ch.CreateID(rdma.PortSpaceUDP, nil); err != nil {
		return err
	}
	s.atEnd(s.id.Destroy)
	if err := s.id.Bind(s.host.Addr); err != nil {
		return &exitError{exitNoDevice, err}
	}
	dev, err := s.id.Device()
	if err != nil {
		return err
	}
	port, err := dev.Port(s.id.Port())
	if err != nil {
		return err
	}
	if s.local, err = s.id.Local(); err != nil {
		return err
	}
	mtu := int(port.ActiveMTU)
	if s.m.size > mtu {
		return usagef("-S %d is more than the %d bytes of the port's MTU", s.m.size, mtu)
	}
	slots, depth := 1, rdma.QPCap{MaxSendWR: mckeySendDepth, MaxRecvWR: 1}
	s.slotBytes = max(s.m.size, 1)
	if s.role == roleReceiver {
		// Room for a GRH and whatever may come: a message that is longer than
		// the buffer takes rxe's queue pair down (kernel sw/rxe/rxe_resp.c).
		slots, s.slotBytes = int(min(s.m.count, mckeyRecvSlots)), rdma.GRHBytes+mtu
		depth = rdma.QPCap{MaxSendWR: 1, MaxRecvWR: slots}
	}
	if s.pd, err = dev.AllocPD(); err != nil {
		return err
	}
	s.closes(s.pd)
	if s.mem, err = sys.Alloc(slots * s.slotBytes); err != nil {
		return err
	}
	s.atEnd(func(context.Context) error { sys.Free(s.mem); return nil })
	if s.mr, err = s.pd.RegisterMemory(s.mem, rdma.AccessLocalWrite); err != nil {
		return fmt.Errorf("%w: 'ulimit -l' bounds the memory that can be registered", err)
	}
	s.closes(s.mr)
	if s.cq, err = dev.CreateCQ(depth.MaxSendWR+depth.MaxRecvWR, nil, nil); err != nil {
		return err
	}
	s.closes(s.cq)
	if s.qp, err = s.id.CreateQP(s.pd, rdma.QPInitAttr{Cap: depth, SendCQ: s.cq, RecvCQ: s.cq}); err != nil {
		return err
	}
	s.atEnd(func(context.Context) error { return s.id.DestroyQP() })
	for i := 0; i < slots && s.role == roleReceiver; i++ {
		if err := s.post(uint64(i)); err != nil {
			return err
		}
	}
	return nil
}

// joinGroup joins the group, takes the event, which attaches the queue pair of a full member, and makes the address
// handle.
func (s *mckeySide) joinGroup(ctx context.Context, group rdma.Addr) error {
	attr := rdma.JoinAttr{CompMask: rdma.JoinMaskAddress | rdma.JoinMaskFlags, Flags: s.member(), Addr: group}
	if err := s.id.JoinMulticastEx(attr, nil); err != nil {
		return err
	}
	s.atEnd(func(ctx context.Context) error { return s.id.LeaveMulticast(ctx, group) })
	for joined := false; !joined; {
		ev, err := s.ch.GetEvent(ctx)
		if err != nil {
			return err
		}
		s.ud, joined = ev.UD, ev.Type == rdma.EventMulticastJoin
		if err := cmp.Or(ev.Ack(), ev.Err()); err != nil {
			return err
		}
	}
	ah, err := s.pd.CreateAH(s.ud.AHAttr)
	if err == nil {
		s.ah = ah
		s.closes(ah)
	}
	return err
}

// joinHint is what to try after a join that failed.
func (s *mckeySide) joinHint(err error) string {
	infiniband := s.local.LinkLayer == rdma.LinkLayerInfiniBand
	switch {
	case errors.Is(err, syscall.ETIMEDOUT):
		return ": is a subnet manager running?"
	case s.m.mgid != "" && !infiniband:
		return ": -M is for InfiniBand, so give an IPv4 group with -m"
	case !errors.Is(err, syscall.EINVAL) || !infiniband:
		return ""
	case s.member() == rdma.JoinSendOnlyFullMember:
		return ": the subnet manager refused; one that does not know send-only members takes a sender without -o"
	}
	return ": the subnet manager refused; its log says why"
}

// transfer sends or receives until all is done or -timeout is over.
func (s *mckeySide) transfer(ctx context.Context) error {
	if s.role == roleReceiver {
		return s.receive(ctx)
	}
	if err := sleep(ctx, s.m.settling); err != nil {
		return err
	}
	return s.send(ctx)
}

// send posts all messages and waits until the device has sent them. They
// have the same bytes, so that one buffer serves all.
func (s *mckeySide) send(ctx context.Context) error {
	for i := range s.mem {
		s.mem[i] = byte(i)
	}
	wr := rdma.SendWR{
		SG: []rdma.SGE{{Buf: s.mem[:s.m.size], LKey: s.mr.LKey()}}, Opcode: rdma.OpSendWithImm,
		AH: s.ah, QPN: s.ud.QPN, QKey: s.ud.QKey,
	}
	binary.BigEndian.PutUint32(wr.Imm[:], uint32(s.qp.QPN()))
	wcs := make([]rdma.WorkCompletion, 2)
	due := schedule{perSecond: s.m.rate}
	for left := s.m.count; left > 0; left = s.m.count - s.messages {
		n, err := due.take(ctx, int(min(left, mckeySendDepth)))
		if err == nil {
			wrs := slices.Repeat([]rdma.SendWR{wr}, n)
			wrs[n-1].Flags = rdma.SendSignaled // its completion tells of all
			_, err = s.qp.PostSend(wrs)
		}
		if err == nil {
			_, err = s.completions(ctx, wcs)
		}
		if errors.Is(err, errMckeyTimeout) {
			err = fmt.Errorf("%d of %s sent within %v", s.messages, count(s.m.count, "message"), s.m.timeout)
		}
		if err != nil {
			return err
		}
		s.messages += uint64(n)
	}
	return nil
}

// completions waits for at least one completion. None may have failed, and the membership may not be lost.
func (s *mckeySide) completions(ctx context.Context, wcs []rdma.WorkCompletion) ([]rdma.WorkCompletion, error) {
	for {
		if ev, err := s.ch.TryGetEvent(); err == nil {
			if err := cmp.Or(ev.Ack(), ev.Err()); err != nil {
				return nil, &exitError{exitNoGroup, fmt.Errorf("the membership was lost: %w", err)}
			}
		}
		n, err := s.cq.Poll(wcs)
		if err != nil {
			return nil, err
		}
		for i := range wcs[:n] {
			switch wcs[i].Status {
			case rdma.WCSuccess:
			case rdma.WCWRFlushErr:
				return nil, &exitError{exitNoGroup, errors.New("the queue pair was flushed: its device failed or was removed")}
			default:
				return nil, fmt.Errorf("a work request completed with %v", wcs[i].Status)
			}
		}
		if n > 0 {
			return wcs[:n], nil
		}
		if err := sleep(ctx, time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// receive takes messages until all that are expected have come.
func (s *mckeySide) receive(ctx context.Context) error {
	wcs := make([]rdma.WorkCompletion, 64)
	for s.messages < s.m.count {
		done, err := s.completions(ctx, wcs)
		if errors.Is(err, errMckeyTimeout) {
			return fmt.Errorf("%d of %s came within %v: is the sender in the same group, on the same network, and was it started after this?",
				s.messages, count(s.m.count, "message"), s.m.timeout)
		}
		if err != nil {
			return err
		}
		for i := range done {
			if err := cmp.Or(s.message(&done[i]), s.post(done[i].WRID)); err != nil {
				return err
			}
		}
	}
	if s.strange > 0 {
		return &exitError{exitStrange, fmt.Errorf("%s came of another length than %d bytes, or without the sender's QPN as immediate",
			count(s.strange, "message"), s.m.size)}
	}
	return nil
}

// message takes one message.
func (s *mckeySide) message(wc *rdma.WorkCompletion) error {
	s.messages++
	r := mckeyMessage{
		Type: "message", Role: s.role, Number: s.messages, Bytes: max(0, int(wc.ByteLen)-rdma.GRHBytes), SourceQPN: wc.SrcQPN.String(),
	}
	if wc.Flags&rdma.WCWithImm != 0 {
		imm := rdma.QPN(binary.BigEndian.Uint32(wc.Imm[:]))
		r.Immediate, r.AsExpected = imm.String(), imm == wc.SrcQPN && r.Bytes == s.m.size
	}
	if h, ok := rdma.ParseGRH(s.local.LinkLayer, s.slot(wc.WRID)); ok {
		r.SourceGID = h.Src.String()
	}
	note := ""
	if !r.AsExpected {
		s.strange++
		note = " (not as expected)"
	}
	if s.messages > mckeyListed {
		return nil
	}
	return s.m.write(&r, "%s: message %d: %d bytes, immediate %s, from QPN %s, GID %s%s\n",
		s.role, r.Number, r.Bytes, cmp.Or(r.Immediate, "none"), r.SourceQPN, r.SourceGID, note)
}

func (s *mckeySide) slot(i uint64) []byte { return s.mem[int(i)*s.slotBytes:][:s.slotBytes] }

func (s *mckeySide) post(i uint64) error {
	_, err := s.qp.PostRecv([]rdma.RecvWR{{WRID: i, SG: []rdma.SGE{{Buf: s.slot(i), LKey: s.mr.LKey()}}}})
	return err
}
