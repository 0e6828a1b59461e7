//go:build rdma && linux && cgo

package verbs

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
)

// An address handle is created in another goroutine, so that a host that does not answer delays neither the caller nor
// handles to other hosts.
func TestHandleToAbsentHost(t *testing.T) {
	hosts := needHosts(t, 2)
	r, to := newRig(t, hosts[0]), newRig(t, hosts[1])
	to.post()
	local, err := r.id.Local()
	r.must(err)
	attr := func(a netip.Addr) rdma.AHAttr {
		return rdma.AHAttr{IsGlobal: true, Port: local.Port, GRH: rdma.GRH{DGID: rdma.GIDFromIP(a), SGIDIndex: local.SGIDIndex, HopLimit: rdma.ReplyHopLimit}}
	}
	begin := func(a netip.Addr) rdma.PendingAH {
		t.Helper()
		p, err := r.pd.(rdma.AHBeginner).BeginCreateAH(attr(a), nil)
		r.must(err)
		return p
	}
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	ip := hosts[0].addr.IP.As4()
	ip[3] = 253
	unused := netip.AddrFrom4(ip)
	start := time.Now()
	waiting, unwanted := begin(unused), begin(unused)
	r.must(r.qp.Close()) // now the domain has only memory
	if err := r.mr.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.pd.Close(); err != nil {
		wantErrno(t, "Close of the domain", err, syscall.EBUSY)
	} else if !waiting.Done() {
		t.Error("the domain was closed while a handle is being made in it")
	}
	unwanted.Cancel()
	// This host answers.
	known := begin(hosts[1].addr.IP)
	r.must(known.Wait(ctx))
	ah, err := known.AH()
	r.must(err)
	if err := waiting.Wait(ctx); err == nil {
		t.Error("made a handle to an absent host")
	} else {
		t.Logf("handle to an absent host, after %v: %v", time.Since(start).Round(time.Millisecond), err)
	}
	_ = unwanted.Wait(ctx) // it ends without a handle
	if _, err := unwanted.AH(); !unwanted.Done() || !errors.Is(err, net.ErrClosed) {
		t.Errorf("the cancelled handle: done %v, %v", unwanted.Done(), err)
	}
	r.ahs = append(r.ahs, ah)

	// The other objects of the rig are enough to send with it.
	r.mr, err = r.pd.RegisterMemory(r.mem, rdma.AccessLocalWrite)
	r.must(err)
	r.qp, err = r.id.CreateQP(r.pd, rdma.QPInitAttr{SendCQ: r.cq, RecvCQ: r.cq, Cap: rdma.QPCap{MaxSendWR: rigDepth, MaxRecvWR: rigDepth}})
	r.must(err)
	wr := r.sendWR(ah, "hello")
	wr.QPN = to.qp.QPN()
	_, err = r.qp.PostSend([]rdma.SendWR{wr})
	r.must(err)
	r.poll(1)
	if wc := to.poll(1)[0]; wc.SrcQPN != r.qp.QPN() {
		t.Errorf("completion %+v, want from QPN %v", wc, r.qp.QPN())
	}
	for range 1000 {
		if working() == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d goroutines remain, want none", working())
}
