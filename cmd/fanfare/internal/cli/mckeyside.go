package cli

import (
	"context"
	"errors"
	"fmt"
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
	roleBoth     = "both" // on sim://
)

// role is what this process is.
func (m *mckey) role() string {
	switch {
	case m.sim:
		return roleBoth
	case m.send:
		return roleSender
	}
	return roleReceiver
}

// mckeySide is the sender or the receiver: so many connections, whose ids share
// an event channel.
type mckeySide struct {
	m      *mckey
	role   string
	host   *fabricurl.Host
	expect uint64 // messages for each connection of a receiver

	ch    rdma.EventChannel
	conns []*mckeyConn
}

// mckeyConn is a connection: an id, its queue pair, and what belongs to them.
type mckeyConn struct {
	side  *mckeySide
	index int

	id    rdma.ID
	dev   rdma.Device
	pd    rdma.PD
	mem   []byte
	mr    rdma.MR
	comp  rdma.CompChannel
	cq    rdma.CQ
	qp    rdma.QP
	group rdma.Addr // joined, if it has a family
	ud    rdma.UDParam
	ah    rdma.AH
	local rdma.Local

	slotBytes, slots int
	messages         uint64 // sent or received
	strange          uint64 // received, but not as mckey's
}

// join opens the connections and joins the group with each.
func (s *mckeySide) join(ctx context.Context, group rdma.Addr) error {
	ctx, cancel := s.m.withTimeout(ctx)
	defer cancel()
	var err error
	if s.ch, err = s.host.NewEventChannel(); err != nil {
		return &exitError{exitNoDevice, err}
	}
	for i := range s.m.connections {
		c := &mckeyConn{side: s, index: i}
		s.conns = append(s.conns, c)
		if err := c.open(ctx, group); err != nil {
			return err
		}
		if err := c.join(ctx, group); err != nil {
			if errors.Is(context.Cause(ctx), errMckeyTimeout) {
				err = fmt.Errorf("no answer within %v", s.m.timeout)
			}
			return noGroup(ctx, fmt.Errorf("group %v is not joined: %w%s", group, err, c.joinHint(err)))
		}
		if group.Family == rdma.FamilyIB && group.GID.IsZero() {
			group = rdma.IBAddr(c.ud.AHAttr.GRH.DGID) // further connections join the one made up
		}
		if err := s.m.report.joined(c); err != nil {
			return err
		}
	}
	return nil
}

// senderGroup is what a sender of this process joins: the group, or the one
// that was made up for the receiver.
func (s *mckeySide) senderGroup(group rdma.Addr) rdma.Addr {
	if group.Family == rdma.FamilyIB {
		return rdma.IBAddr(s.conns[0].ud.AHAttr.GRH.DGID)
	}
	return group
}

// open binds the id to the device and makes queue pair and memory.
func (c *mckeyConn) open(ctx context.Context, group rdma.Addr) error {
	s, m := c.side, c.side.m
	var err error
	if c.id, err = s.ch.CreateID(rdma.PortSpaceUDP, c); err != nil {
		return err
	}
	src := s.host.Addr
	if m.bind != (rdma.Addr{}) {
		src = m.bind
	}
	if err := c.id.Bind(src); err != nil {
		return &exitError{exitNoDevice, err}
	}
	if c.dev, err = c.id.Device(); err != nil {
		return err
	}
	port, err := c.dev.Port(c.id.Port())
	if err != nil {
		return err
	}
	if m.size > int(port.ActiveMTU) {
		return usagef("-S %d is more than the %d bytes of the port's MTU", m.size, int(port.ActiveMTU))
	}
	attr, err := c.dev.Attr()
	if err != nil {
		return err
	}
	if most := attr.MaxMcastQPAttach; most > 0 && m.connections > most && c.attaches() {
		return usagef("-c %d is too many for device %s: it attaches at most %d queue pairs to a group", m.connections, attr.Name, most)
	}
	if c.local, err = c.id.Local(); err != nil {
		return err
	}
	return c.resources(int(port.ActiveMTU))
}

// attaches reports whether joining attaches the queue pair.
func (c *mckeyConn) attaches() bool { return c.side.role != roleSender || !c.side.m.sendOnly }

// Queue lengths: what of a burst a receiver can hold, and what a sender has
// under way.
const (
	mckeyRecvSlots = 1024
	mckeySendDepth = 64
)

func (c *mckeyConn) resources(mtu int) error {
	attr := rdma.QPInitAttr{Cap: rdma.QPCap{MaxSendWR: mckeySendDepth, MaxRecvWR: 1}}
	c.slots, c.slotBytes = 1, max(c.side.m.size, 1)
	if c.side.role == roleReceiver {
		// Room for a GRH and whatever may come: a message that is longer than
		// the buffer takes rxe's queue pair down (kernel sw/rxe/rxe_resp.c).
		c.slots, c.slotBytes = int(min(c.side.expect, mckeyRecvSlots)), rdma.GRHBytes+mtu
		attr.Cap = rdma.QPCap{MaxSendWR: 1, MaxRecvWR: c.slots}
	}
	var err error
	if c.pd, err = c.dev.AllocPD(); err != nil {
		return err
	}
	if c.mem, err = sys.Alloc(c.slots * c.slotBytes); err != nil {
		return err
	}
	if c.mr, err = c.pd.RegisterMemory(c.mem, rdma.AccessLocalWrite); err != nil {
		return fmt.Errorf("%w: 'ulimit -l' bounds the memory that can be registered", err)
	}
	if c.comp, err = c.dev.NewCompChannel(); err != nil {
		return err
	}
	if c.cq, err = c.dev.CreateCQ(attr.Cap.MaxSendWR+attr.Cap.MaxRecvWR, c.comp, c); err != nil {
		return err
	}
	attr.SendCQ, attr.RecvCQ = c.cq, c.cq
	if c.qp, err = c.id.CreateQP(c.pd, attr); err != nil {
		return err
	}
	if c.side.role == roleReceiver {
		return c.postAll()
	}
	return nil
}

// join joins the group and takes the event. A receiver's queue pair is attached
// by that.
func (c *mckeyConn) join(ctx context.Context, group rdma.Addr) error {
	attr := rdma.JoinAttr{CompMask: rdma.JoinMaskAddress | rdma.JoinMaskFlags, Flags: rdma.JoinFullMember, Addr: group}
	if !c.attaches() {
		attr.Flags = rdma.JoinSendOnlyFullMember
	}
	if err := c.id.JoinMulticastEx(attr, c); err != nil {
		return err
	}
	c.group = group
	for {
		ev, err := c.side.ch.GetEvent(ctx)
		if err != nil {
			return err
		}
		mine, everr := ev.Type == rdma.EventMulticastJoin && ev.Context == any(c), ev.Err()
		if mine {
			c.ud = ev.UD
		}
		if err := ev.Ack(); err != nil {
			return err
		}
		switch {
		case everr != nil:
			return everr
		case mine:
			c.ah, err = c.pd.CreateAH(c.ud.AHAttr)
			return err
		}
	}
}

// joinHint is what to try after a join that failed.
func (c *mckeyConn) joinHint(err error) string {
	switch {
	case errors.Is(err, syscall.ETIMEDOUT):
		return ": is a subnet manager running?"
	case c.side.m.mgid != "" && c.local.LinkLayer != rdma.LinkLayerInfiniBand:
		return ": -M is for InfiniBand, so give an IPv4 group with -m"
	case !errors.Is(err, syscall.EINVAL) || c.local.LinkLayer != rdma.LinkLayerInfiniBand:
		return ""
	case c.side.role == roleSender && c.side.m.sendOnly:
		return ": the subnet manager refused; one that does not know send-only members takes a sender without -o"
	}
	return ": the subnet manager refused; its log says why"
}

// watch ends the transfer when a membership or the device is lost. It returns
// how to end the watching.
func (s *mckeySide) watch(ctx context.Context, lost context.CancelCauseFunc) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			ev, err := s.ch.GetEvent(ctx)
			if err != nil {
				return
			}
			everr := ev.Err()
			_ = ev.Ack() // it was not acknowledged before
			if everr != nil {
				lost(&exitError{exitNoGroup, fmt.Errorf("the membership was lost: %w", everr)})
				return
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// closeWait bounds the waits of leaving, which end by themselves unless
// something is badly wrong.
const closeWait = 10 * time.Second

// close ends everything that was begun, in the order that verbs want, and
// returns the first error.
func (s *mckeySide) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	var first error
	note := func(err error) {
		if err != nil && first == nil {
			first = fmt.Errorf("%s: closing: %w", s.role, err)
		}
	}
	for _, c := range s.conns {
		c.close(ctx, note)
	}
	if s.ch != nil {
		note(s.ch.Close())
	}
	return first
}

func (c *mckeyConn) close(ctx context.Context, note func(error)) {
	if c.group.Family != rdma.FamilyNone {
		note(c.id.LeaveMulticast(ctx, c.group))
	}
	if c.ah != nil {
		note(c.ah.Close())
	}
	if c.qp != nil {
		note(c.id.DestroyQP())
	}
	for _, o := range []interface{ Close() error }{c.cq, c.comp, c.mr, c.pd} {
		if o != nil {
			note(o.Close())
		}
	}
	if c.id != nil {
		note(c.id.Destroy(ctx))
	}
	sys.Free(c.mem)
}

// ended is why the context ended, if it is not the time.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, errMckeyTimeout) {
		return cause
	}
	return nil
}
