package cli

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
)

// transfer sends or receives on all connections, until all is done, -timeout is
// over, or one of them fails.
func (s *mckeySide) transfer(parent context.Context) error {
	if s.role == roleSender {
		if err := sleep(parent, s.m.settling); err != nil {
			return err
		}
	}
	ctx, lost := context.WithCancelCause(parent)
	defer lost(nil)
	ctx, cancel := s.m.withTimeout(ctx)
	defer cancel()
	defer s.watch(ctx, lost)()
	var wg sync.WaitGroup
	errs := make([]error, len(s.conns))
	for i, c := range s.conns {
		wg.Go(func() {
			if s.role == roleSender {
				errs[i] = c.sendAll(ctx)
			} else {
				errs[i] = c.receiveAll(ctx)
			}
			if errs[i] != nil && ctx.Err() == nil {
				lost(errs[i])
			}
		})
	}
	wg.Wait()
	if err := ended(ctx); err != nil {
		return err
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return s.strange()
}

// strange is an error if messages came that no mckey sends.
func (s *mckeySide) strange() error {
	var n uint64
	for _, c := range s.conns {
		n += c.strange
	}
	if n == 0 {
		return nil
	}
	return &exitError{exitStrange, fmt.Errorf("%s came of another length than %d bytes, or without the sender's QPN as immediate", count(n, "message"), s.m.size)}
}

// sleep waits for d.
func sleep(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return context.Cause(ctx)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// sendAll posts all messages and waits until the device has sent them. They
// have the same bytes, so that one buffer serves all.
func (c *mckeyConn) sendAll(ctx context.Context) error {
	for i := range c.mem {
		c.mem[i] = byte(i)
	}
	wr := rdma.SendWR{
		SG: []rdma.SGE{{Buf: c.mem[:c.side.m.size], LKey: c.mr.LKey()}}, Opcode: rdma.OpSendWithImm,
		AH: c.ah, QPN: c.ud.QPN, QKey: c.ud.QKey,
	}
	binary.BigEndian.PutUint32(wr.Imm[:], uint32(c.qp.QPN()))
	wrs := make([]rdma.SendWR, mckeySendDepth)
	wcs := make([]rdma.WorkCompletion, 2)
	due := schedule{perSecond: c.side.m.rate}
	for left := c.side.m.count; left > 0; {
		n, err := due.take(ctx, int(min(left, mckeySendDepth)))
		if err != nil {
			return fmt.Errorf("%d of %s sent within %v", c.messages, count(c.side.m.count, "message"), c.side.m.timeout)
		}
		for i := range n {
			wrs[i] = wr
		}
		wrs[n-1].Flags = rdma.SendSignaled // its completion tells of all
		if _, err := c.qp.PostSend(wrs[:n]); err != nil {
			return err
		}
		if _, err := c.completions(ctx, wcs); err != nil {
			return fmt.Errorf("%d of %s sent: %w", c.messages, count(c.side.m.count, "message"), err)
		}
		left -= uint64(n)
		c.messages += uint64(n)
	}
	return nil
}

// completions waits for at least one completion. None may have failed.
func (c *mckeyConn) completions(ctx context.Context, wcs []rdma.WorkCompletion) ([]rdma.WorkCompletion, error) {
	for armed := false; ; {
		n, err := c.cq.Poll(wcs)
		if err != nil {
			return nil, err
		}
		for i := range wcs[:n] {
			switch wcs[i].Status {
			case rdma.WCSuccess:
			case rdma.WCWRFlushErr:
				return nil, &exitError{exitNoGroup, fmt.Errorf("the queue pair was flushed: its device failed or was removed")}
			default:
				return nil, fmt.Errorf("a work request completed with %v", wcs[i].Status)
			}
		}
		switch {
		case n > 0:
			return wcs[:n], nil
		case !armed: // and look once more: what came before does not notify
			if err := c.cq.RequestNotify(false); err != nil {
				return nil, err
			}
			armed = true
			continue
		}
		if _, err := c.comp.Wait(ctx); err != nil {
			return nil, err
		}
		armed = false
	}
}

// receiveAll takes messages until all that are expected have come.
func (c *mckeyConn) receiveAll(ctx context.Context) error {
	wcs := make([]rdma.WorkCompletion, 64)
	for c.messages < c.side.expect {
		done, err := c.completions(ctx, wcs)
		if err != nil {
			if ctx.Err() != nil {
				err = fmt.Errorf("%d of %s came within %v: is the sender in the same group, on the same network, and was it started after this?", c.messages, count(c.side.expect, "message"), c.side.m.timeout)
			}
			return err
		}
		for i := range done {
			if err := c.message(&done[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// message takes one message and posts its buffer again.
func (c *mckeyConn) message(wc *rdma.WorkCompletion) error {
	slot := c.slot(wc.WRID)
	r := mckeyMessage{Type: "message", Connection: c.index, SourceQPN: wc.SrcQPN.String()}
	r.Bytes = max(0, int(wc.ByteLen)-rdma.GRHBytes)
	if wc.Flags&rdma.WCWithImm != 0 {
		imm := rdma.QPN(binary.BigEndian.Uint32(wc.Imm[:]))
		r.Immediate = imm.String()
		r.AsExpected = imm == wc.SrcQPN && r.Bytes == c.side.m.size
	}
	if h, ok := rdma.ParseGRH(c.local.LinkLayer, slot); ok {
		r.SourceGID = h.Src.String()
	}
	if !r.AsExpected {
		c.strange++
	}
	c.messages++
	if err := c.side.m.report.message(c, &r); err != nil {
		return err
	}
	return c.post(wc.WRID)
}

func (c *mckeyConn) slot(i uint64) []byte {
	return c.mem[int(i)*c.slotBytes:][:c.slotBytes]
}

func (c *mckeyConn) post(i uint64) error {
	_, err := c.qp.PostRecv([]rdma.RecvWR{{WRID: i, SG: []rdma.SGE{{Buf: c.slot(i), LKey: c.mr.LKey()}}}})
	return err
}

func (c *mckeyConn) postAll() error {
	for i := range c.slots {
		if err := c.post(uint64(i)); err != nil {
			return err
		}
	}
	return nil
}
