package cli

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/fanfaremq/fanfare/internal/fabricurl"
	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/rdma"
)

// Roles in what is printed.
const (
	roleSender   = "sender"
	roleReceiver = "receiver"
)

// mckeySide is the sender or the receiver: so many connections, whose ids share
// an event channel.
type mckeySide struct {
	m      *mckey
	role   string
	host   *fabricurl.Host
	expect uint64 // messages for each connection of a receiver

	ch     rdma.EventChannel
	conns  []*mckeyConn
	joined bool                          // one of them is
	ends   []func(context.Context) error // what was begun, in order
}

// mckeyConn is a connection: an id, its queue pair, and what belongs to them.
type mckeyConn struct {
	side  *mckeySide
	index int
	id    rdma.ID
	pd    rdma.PD
	mem   []byte
	mr    rdma.MR
	comp  rdma.CompChannel
	cq    rdma.CQ
	qp    rdma.QP
	ud    rdma.UDParam
	ah    rdma.AH
	local rdma.Local

	slotBytes         int
	messages, strange uint64 // sent or received; received, but not as mckey's
}

// Queue lengths: what of a burst a receiver can hold, and what a sender has
// under way.
const (
	mckeyRecvSlots = 1024
	mckeySendDepth = 64
)

var errMckeyTimeout = errors.New("time is up")

// sendsOnly reports whether joining attaches no queue pair.
func (s *mckeySide) sendsOnly() bool { return s.role == roleSender && s.m.sendOnly }

// counts are the messages of all connections, and those of them that are not as mckey's.
func (s *mckeySide) counts() (messages, strange uint64) {
	for _, c := range s.conns {
		messages, strange = messages+c.messages, strange+c.strange
	}
	return messages, strange
}

// join opens the connections and joins the group with each. It returns the group that further ones join: the
// one that the subnet manager made up.
func (s *mckeySide) join(ctx context.Context, group rdma.Addr) (rdma.Addr, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.m.timeout, errMckeyTimeout)
	defer cancel()
	var err error
	if s.ch, err = s.host.NewEventChannel(); err != nil {
		return group, &exitError{exitNoDevice, err}
	}
	s.closes(s.ch)
	for i := range s.m.connections {
		c := &mckeyConn{side: s, index: i}
		s.conns = append(s.conns, c)
		if err := c.open(); err != nil {
			return group, err
		}
		if err := c.join(ctx, group); err != nil {
			if cause := context.Cause(ctx); errors.Is(cause, errMckeyTimeout) {
				err = fmt.Errorf("no answer within %v", s.m.timeout)
			} else if cause != nil {
				return group, cause
			}
			return group, &exitError{exitNoGroup, fmt.Errorf("group %v is not joined: %w%s", group, err, c.joinHint(err))}
		}
		s.joined = true
		if group.Family == rdma.FamilyIB {
			group = rdma.IBAddr(c.ud.AHAttr.GRH.DGID)
		}
		if err := c.reportJoin(); err != nil {
			return group, err
		}
	}
	return group, nil
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
func (c *mckeyConn) open() error {
	s, m := c.side, c.side.m
	var err error
	if c.id, err = s.ch.CreateID(rdma.PortSpaceUDP, c); err != nil {
		return err
	}
	s.atEnd(c.id.Destroy)
	if err := c.id.Bind(cmp.Or(m.bind, s.host.Addr)); err != nil {
		return &exitError{exitNoDevice, err}
	}
	dev, err := c.id.Device()
	if err != nil {
		return err
	}
	port, err := dev.Port(c.id.Port())
	if err != nil {
		return err
	}
	mtu := int(port.ActiveMTU)
	if m.size > mtu {
		return usagef("-S %d is more than the %d bytes of the port's MTU", m.size, mtu)
	}
	attr, err := dev.Attr()
	if err != nil {
		return err
	}
	if most := attr.MaxMcastQPAttach; most > 0 && m.connections > most && !s.sendsOnly() {
		return usagef("-c %d is too many for device %s: it attaches at most %d queue pairs to a group", m.connections, attr.Name, most)
	}
	if c.local, err = c.id.Local(); err != nil {
		return err
	}
	slots, depth := 1, rdma.QPCap{MaxSendWR: mckeySendDepth, MaxRecvWR: 1}
	c.slotBytes = max(m.size, 1)
	if s.role == roleReceiver {
		// Room for a GRH and whatever may come: a message that is longer than
		// the buffer takes rxe's queue pair down (kernel sw/rxe/rxe_resp.c).
		slots, c.slotBytes = int(min(s.expect, mckeyRecvSlots)), rdma.GRHBytes+mtu
		depth = rdma.QPCap{MaxSendWR: 1, MaxRecvWR: slots}
	}
	if c.pd, err = dev.AllocPD(); err != nil {
		return err
	}
	s.closes(c.pd)
	if c.mem, err = sys.Alloc(slots * c.slotBytes); err != nil {
		return err
	}
	s.atEnd(func(context.Context) error { sys.Free(c.mem); return nil })
	if c.mr, err = c.pd.RegisterMemory(c.mem, rdma.AccessLocalWrite); err != nil {
		return fmt.Errorf("%w: 'ulimit -l' bounds the memory that can be registered", err)
	}
	s.closes(c.mr)
	if c.comp, err = dev.NewCompChannel(); err != nil {
		return err
	}
	s.closes(c.comp)
	if c.cq, err = dev.CreateCQ(depth.MaxSendWR+depth.MaxRecvWR, c.comp, c); err != nil {
		return err
	}
	s.closes(c.cq)
	if c.qp, err = c.id.CreateQP(c.pd, rdma.QPInitAttr{Cap: depth, SendCQ: c.cq, RecvCQ: c.cq}); err != nil {
		return err
	}
	s.atEnd(func(context.Context) error { return c.id.DestroyQP() })
	for i := 0; s.role == roleReceiver && i < slots; i++ {
		if err := c.post(uint64(i)); err != nil {
			return err
		}
	}
	return nil
}

// join joins the group and takes the event. A receiver's queue pair is attached
// by that.
func (c *mckeyConn) join(ctx context.Context, group rdma.Addr) error {
	attr := rdma.JoinAttr{CompMask: rdma.JoinMaskAddress | rdma.JoinMaskFlags, Flags: rdma.JoinFullMember, Addr: group}
	if c.side.sendsOnly() {
		attr.Flags = rdma.JoinSendOnlyFullMember
	}
	if err := c.id.JoinMulticastEx(attr, c); err != nil {
		return err
	}
	c.side.atEnd(func(ctx context.Context) error { return c.id.LeaveMulticast(ctx, group) })
	for c.ah == nil {
		ev, err := c.side.ch.GetEvent(ctx)
		if err != nil {
			return err
		}
		mine, failed := ev.Type == rdma.EventMulticastJoin && ev.Context == any(c), ev.Err()
		if mine {
			c.ud = ev.UD
		}
		if err := cmp.Or(ev.Ack(), failed); err != nil {
			return err
		}
		if !mine {
			continue
		}
		if c.ah, err = c.pd.CreateAH(c.ud.AHAttr); err != nil {
			return err
		}
		c.side.closes(c.ah)
	}
	return nil
}

// joinHint is what to try after a join that failed.
func (c *mckeyConn) joinHint(err error) string {
	infiniband := c.local.LinkLayer == rdma.LinkLayerInfiniBand
	switch {
	case errors.Is(err, syscall.ETIMEDOUT):
		return ": is a subnet manager running?"
	case c.side.m.mgid != "" && !infiniband:
		return ": -M is for InfiniBand, so give an IPv4 group with -m"
	case !errors.Is(err, syscall.EINVAL) || !infiniband:
		return ""
	case c.side.sendsOnly():
		return ": the subnet manager refused; one that does not know send-only members takes a sender without -o"
	}
	return ": the subnet manager refused; its log says why"
}

// name is how a connection is called.
func (c *mckeyConn) name() string {
	if c.side.m.connections == 1 {
		return c.side.role
	}
	return fmt.Sprintf("%s %d", c.side.role, c.index)
}

func (c *mckeyConn) reportJoin() error {
	member := rdma.JoinFullMember
	if c.side.sendsOnly() {
		member = rdma.JoinSendOnlyFullMember
	}
	ah := &c.ud.AHAttr
	dev, err := c.id.Device()
	if err != nil {
		return err
	}
	j := mckeyJoin{
		"join", c.side.role, c.index, dev.Name(), c.id.Port(), c.local.LinkLayer.String(), c.qp.QPN().String(), member.String(),
		ah.GRH.DGID.String(), ah.DLID.String(), c.ud.QPN.String(), c.ud.QKey.String(), ah.SL, ah.GRH.SGIDIndex, ah.GRH.HopLimit,
	}
	return c.side.m.write(&j, "%s: joined as %s with QPN %s on %s port %d (%s)\n%s: joined dgid: %s mlid %s sl %d, qpn %s, qkey %s, sgid_index %d, hop_limit %d\n",
		c.name(), j.Member, j.LocalQPN, j.Device, j.Port, j.LinkLayer,
		c.name(), j.DGID, j.MLID, j.SL, j.QPN, j.QKey, j.SGIDIndex, j.HopLimit)
}

// transfer sends or receives on all connections, until all is done, -timeout is
// over, or one of them fails.
func (s *mckeySide) transfer(ctx context.Context) error {
	if s.role == roleSender {
		select {
		case <-time.After(s.m.settling):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	ctx, lost := context.WithCancelCause(ctx)
	timed, cancel := context.WithTimeoutCause(ctx, s.m.timeout, errMckeyTimeout)
	var watching sync.WaitGroup
	watching.Go(func() { s.watch(timed, lost) })
	defer func() { cancel(); watching.Wait(); lost(nil) }()
	work := (*mckeyConn).receiveAll
	if s.role == roleSender {
		work = (*mckeyConn).sendAll
	}
	err := together(timed, s.conns, work)
	if cause := context.Cause(timed); cause != nil && !errors.Is(cause, errMckeyTimeout) {
		return cause
	}
	if _, strange := s.counts(); err == nil && strange > 0 {
		return &exitError{exitStrange, fmt.Errorf("%s came of another length than %d bytes, or without the sender's QPN as immediate", count(strange, "message"), s.m.size)}
	}
	return err
}

// watch ends the transfer when a membership or the device is lost.
func (s *mckeySide) watch(ctx context.Context, lost context.CancelCauseFunc) {
	for {
		ev, err := s.ch.GetEvent(ctx)
		if err != nil {
			return
		}
		failed := ev.Err()
		_ = ev.Ack() // it was not acknowledged before
		if failed != nil {
			lost(&exitError{exitNoGroup, fmt.Errorf("the membership was lost: %w", failed)})
			return
		}
	}
}

// sendAll posts all messages and waits until the device has sent them. They
// have the same bytes, so that one buffer serves all.
func (c *mckeyConn) sendAll(ctx context.Context) error {
	m := c.side.m
	for i := range c.mem {
		c.mem[i] = byte(i)
	}
	wr := rdma.SendWR{
		SG: []rdma.SGE{{Buf: c.mem[:m.size], LKey: c.mr.LKey()}}, Opcode: rdma.OpSendWithImm,
		AH: c.ah, QPN: c.ud.QPN, QKey: c.ud.QKey,
	}
	binary.BigEndian.PutUint32(wr.Imm[:], uint32(c.qp.QPN()))
	wcs := make([]rdma.WorkCompletion, 2)
	due := schedule{perSecond: m.rate}
	for left := m.count; left > 0; left = m.count - c.messages {
		n, err := due.take(ctx, int(min(left, mckeySendDepth)))
		if err != nil {
			return fmt.Errorf("%d of %s sent within %v", c.messages, count(m.count, "message"), m.timeout)
		}
		wrs := slices.Repeat([]rdma.SendWR{wr}, n)
		wrs[n-1].Flags = rdma.SendSignaled // its completion tells of all
		if _, err := c.qp.PostSend(wrs); err != nil {
			return err
		}
		if _, err := c.completions(ctx, wcs); err != nil {
			return fmt.Errorf("%d of %s sent: %w", c.messages, count(m.count, "message"), err)
		}
		c.messages += uint64(n)
	}
	return nil
}

// completions waits for at least one completion. None may have failed.
func (c *mckeyConn) completions(ctx context.Context, wcs []rdma.WorkCompletion) ([]rdma.WorkCompletion, error) {
	for {
		if err := c.cq.RequestNotify(false); err != nil { // before the look: what came earlier does not notify
			return nil, err
		}
		n, err := c.cq.Poll(wcs)
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
		if _, err := c.comp.Wait(ctx); err != nil {
			return nil, err
		}
	}
}

// receiveAll takes messages until all that are expected have come.
func (c *mckeyConn) receiveAll(ctx context.Context) error {
	wcs := make([]rdma.WorkCompletion, 64)
	for c.messages < c.side.expect {
		done, err := c.completions(ctx, wcs)
		if err != nil && ctx.Err() != nil {
			return fmt.Errorf("%d of %s came within %v: is the sender in the same group, on the same network, and was it started after this?", c.messages, count(c.side.expect, "message"), c.side.m.timeout)
		}
		if err != nil {
			return err
		}
		for i := range done {
			if err := cmp.Or(c.message(&done[i]), c.post(done[i].WRID)); err != nil {
				return err
			}
		}
	}
	return nil
}

// message takes one message.
func (c *mckeyConn) message(wc *rdma.WorkCompletion) error {
	c.messages++
	r := mckeyMessage{Type: "message", Role: c.side.role, Connection: c.index, Number: c.messages, SourceQPN: wc.SrcQPN.String()}
	r.Bytes = max(0, int(wc.ByteLen)-rdma.GRHBytes)
	immediate, note := "none", " (not as expected)"
	if wc.Flags&rdma.WCWithImm != 0 {
		imm := rdma.QPN(binary.BigEndian.Uint32(wc.Imm[:]))
		r.Immediate, immediate = imm.String(), imm.String()
		r.AsExpected = imm == wc.SrcQPN && r.Bytes == c.side.m.size
	}
	if h, ok := rdma.ParseGRH(c.local.LinkLayer, c.slot(wc.WRID)); ok {
		r.SourceGID = h.Src.String()
	}
	if r.AsExpected {
		note = ""
	} else {
		c.strange++
	}
	if c.messages > mckeyListed {
		return nil
	}
	return c.side.m.write(&r, "%s: message %d: %d bytes, immediate %s, from QPN %s, GID %s%s\n", c.name(), r.Number, r.Bytes, immediate, r.SourceQPN, r.SourceGID, note)
}

func (c *mckeyConn) slot(i uint64) []byte { return c.mem[int(i)*c.slotBytes:][:c.slotBytes] }

func (c *mckeyConn) post(i uint64) error {
	_, err := c.qp.PostRecv([]rdma.RecvWR{{WRID: i, SG: []rdma.SGE{{Buf: c.slot(i), LKey: c.mr.LKey()}}}})
	return err
}
