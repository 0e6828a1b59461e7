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

// An address handle to a host is created in another goroutine, so a host that does not answer does not
// hold up the caller; nor does it hold up handles to others.
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
	nobody := netip.AddrFrom4(ip)
	start := time.Now()
	waiting, unwanted := begin(nobody), begin(nobody)
	r.must(r.qp.Close()) // the domain has nothing else left but memory
	if err := r.mr.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.pd.Close(); err != nil {
		wantErrno(t, "Close of the domain", err, syscall.EBUSY)
	} else if !waiting.Done() {
		t.Error("the domain closes while a handle is made in it")
	}
	unwanted.Cancel()
	// This one answers.
	known := begin(hosts[1].addr.IP)
	r.must(known.Wait(ctx))
	ah, err := known.AH()
	r.must(err)
	if err := waiting.Wait(ctx); err == nil {
		t.Error("there is a handle to an absent host")
	} else {
		t.Logf("handle to an absent host, after %v: %v", time.Since(start).Round(time.Millisecond), err)
	}
	_ = unwanted.Wait(ctx) // there was none to give up
	if _, err := unwanted.AH(); !unwanted.Done() || !errors.Is(err, net.ErrClosed) {
		t.Errorf("the handle that was given up: done %v, %v", unwanted.Done(), err)
	}
	r.ahs = append(r.ahs, ah)

	// The rest of the rig is enough to send with it.
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
		t.Errorf("completion %+v", wc)
	}
	for range 1000 {
		if working() == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d goroutines are left", working())
}
