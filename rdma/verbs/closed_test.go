//go:build rdma && linux && cgo

package verbs

import (
	"errors"
	"net"
	"sync"
	"syscall"
	"testing"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/rdma"
)

func wantClosed(t testing.TB, what string, err error) {
	t.Helper()
	if !errors.Is(err, net.ErrClosed) {
		t.Errorf("%s: %v, want the error of a closed object", what, err)
	}
}

// Calls on closed objects, or with closed objects, return errors and leave no objects.
func TestClosedObjects(t *testing.T) {
	r := newRig(t, testHosts(t)[0])
	ah := r.join(testGroup(4), rdma.JoinSendOnlyFullMember)
	multicast := ah.Attr()
	id, err := r.ch.CreateID(rdma.PortSpaceUDP, nil)
	r.must(err)
	r.must(id.Bind(r.host.addr))
	dev, err := id.Device()
	r.must(err)
	comp, err := dev.NewCompChannel()
	r.must(err)
	pd, err := dev.AllocPD()
	r.must(err)
	cq, err := dev.CreateCQ(10, comp, nil)
	r.must(err)
	open, err := dev.CreateCQ(10, nil, nil)
	r.must(err)

	entries := cq.Entries()
	r.must(cq.Close())
	if n := cq.Entries(); n != entries || n < 10 {
		t.Errorf("a closed queue has %d entries, before %d", n, entries)
	}
	_, err = cq.Poll(make([]rdma.WorkCompletion, 1))
	wantClosed(t, "Poll", err)
	_, err = cq.(rdma.Spinner).PollFor(make([]rdma.WorkCompletion, 1), maxSpin)
	wantClosed(t, "PollFor", err)
	wantClosed(t, "RequestNotify", cq.RequestNotify(false))
	wantClosed(t, "a second Close", cq.Close())
	for _, qs := range [][2]rdma.CQ{{cq, open}, {open, cq}, {cq, cq}} {
		attr := rdma.QPInitAttr{SendCQ: qs[0], RecvCQ: qs[1], Cap: rdma.QPCap{MaxSendWR: 1, MaxRecvWR: 1}}
		_, err = pd.CreateQP(attr)
		wantClosed(t, "CreateQP", err)
		_, err = id.CreateQP(pd, attr)
		wantClosed(t, "CreateQP of an id", err)
	}
	qp, err := pd.CreateQP(rdma.QPInitAttr{SendCQ: open, RecvCQ: open, Cap: rdma.QPCap{MaxSendWR: 1, MaxRecvWR: 1}})
	r.must(err)
	wantErrno(t, "Close of a queue in use", open.Close(), syscall.EBUSY)
	r.must(qp.Close())
	_, err = qp.Query()
	wantClosed(t, "Query", err)
	_, err = qp.PostRecv([]rdma.RecvWR{r.recvWR(0)})
	wantClosed(t, "PostRecv", err)
	wantClosed(t, "AttachMcast", qp.AttachMcast(multicast.GRH.DGID, 0))

	r.must(comp.Close())
	_, err = dev.CreateCQ(10, comp, nil)
	wantClosed(t, "CreateCQ", err)

	r.must(pd.Close()) // failed calls have left no object in it
	mem, err := sys.Alloc(4096)
	r.must(err)
	defer sys.Free(mem)
	_, err = pd.RegisterMemory(mem, rdma.AccessLocalWrite)
	wantClosed(t, "RegisterMemory", err)
	_, err = pd.CreateAH(multicast)
	wantClosed(t, "CreateAH", err)
	_, err = pd.(rdma.AHBeginner).BeginCreateAH(multicast, nil)
	wantClosed(t, "BeginCreateAH", err)
	_, err = pd.CreateQP(rdma.QPInitAttr{SendCQ: open, RecvCQ: open, Cap: rdma.QPCap{MaxSendWR: 1, MaxRecvWR: 1}})
	wantClosed(t, "CreateQP in a domain", err)
	r.must(open.Close())
	_, err = id.BeginDestroy()
	r.must(err)

	p, err := Open()
	r.must(err)
	own, err := p.OpenDevice(r.host.device)
	r.must(err)
	left, err := own.AllocPD()
	r.must(err)
	wantErrno(t, "Close of a device in use", own.Close(), syscall.EBUSY)
	r.must(left.Close())
	r.must(own.Close())
	for what, call := range map[string]func() error{
		"Attr":           func() error { _, err := own.Attr(); return err },
		"Port":           func() error { _, err := own.Port(1); return err },
		"PortCounts":     func() error { _, err := own.(rdma.PortCounting).PortCounts(1); return err },
		"GIDs":           func() error { _, err := own.GIDs(1); return err },
		"PKeys":          func() error { _, err := own.PKeys(1); return err },
		"AllocPD":        func() error { _, err := own.AllocPD(); return err },
		"NewCompChannel": func() error { _, err := own.NewCompChannel(); return err },
		"CreateCQ":       func() error { _, err := own.CreateCQ(1, nil, nil); return err },
		"Close":          own.Close,
	} {
		wantClosed(t, what, call())
	}
}

// If a completion queue is closed while a queue pair is made with it, exactly one of the two calls succeeds.
func TestCreateDuringClose(t *testing.T) {
	r := newRig(t, testHosts(t)[0])
	for range 50 {
		cq, err := r.dev.CreateCQ(10, nil, nil)
		r.must(err)
		var qp rdma.QP
		var made, closed error
		var wg sync.WaitGroup
		wg.Add(2)
		go func() {
			defer wg.Done()
			qp, made = r.pd.CreateQP(rdma.QPInitAttr{SendCQ: cq, RecvCQ: cq, Cap: rdma.QPCap{MaxSendWR: 1, MaxRecvWR: 1}})
		}()
		go func() {
			defer wg.Done()
			closed = cq.Close()
		}()
		wg.Wait()
		switch {
		case made == nil:
			wantErrno(t, "Close", closed, syscall.EBUSY)
			r.must(qp.Close())
			r.must(cq.Close())
		case closed == nil:
			wantClosed(t, "CreateQP", made)
		default:
			t.Fatalf("CreateQP ended with %v and Close with %v", made, closed)
		}
	}
}
