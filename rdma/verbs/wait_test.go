//go:build rdma && linux && cgo

package verbs

import (
	"context"
	"errors"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
)

// An armed queue reports a completion once. A wait ends with its context and with the channel.
func TestNotification(t *testing.T) {
	r := newRig(t, testHosts(t)[0])
	ah := r.join(testGroup(1), rdma.JoinSendOnlyFullMember)
	if _, err := r.comp.TryWait(); err != rdma.ErrNoEvent {
		t.Errorf("TryWait of an idle channel fails with %v, want %v", err, rdma.ErrNoEvent)
	}
	for range 3 {
		r.must(r.cq.RequestNotify(false))
		_, err := r.qp.PostSend([]rdma.SendWR{r.sendWR(ah, "x")})
		r.must(err)
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		cq, err := r.comp.Wait(ctx)
		cancel()
		r.must(err)
		if cq != r.cq {
			t.Errorf("notification of %v, want %v", cq, r.cq)
		}
		r.poll(1)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { _, err := r.comp.Wait(ctx); ended <- err }()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Wait ended with %v, want %v", err, context.Canceled)
	}
}

// Closing a channel ends waits for it.
func TestCloseEndsWaiting(t *testing.T) {
	host := testHosts(t)[0]
	p, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	ch, err := p.NewEventChannel()
	if err != nil {
		t.Fatal(err)
	}
	dev, err := p.OpenDevice(host.device)
	if err != nil {
		t.Fatal(err)
	}
	comp, err := dev.NewCompChannel()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 3)
	begin := func(wait func() error) {
		go func() { ended <- wait() }()
	}
	begin(func() error { _, err := ch.GetEvent(context.Background()); return err })
	begin(func() error { _, err := comp.Wait(context.Background()); return err })
	begin(func() error { _, err := dev.GetAsyncEvent(context.Background()); return err })
	for _, c := range []interface{ Close() error }{ch, comp, dev} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	for range 3 {
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("the wait ended with %v, want %v", err, net.ErrClosed)
		}
	}
	if _, err := ch.CreateID(rdma.PortSpaceUDP, nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("CreateID fails with %v, want %v", err, net.ErrClosed)
	}
	if _, err := dev.AllocPD(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("AllocPD fails with %v, want %v", err, net.ErrClosed)
	}
	for _, c := range []interface{ Close() error }{ch, comp, dev} {
		if err := c.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("the second Close returns %v, want %v", err, net.ErrClosed)
		}
	}
}

// All goroutines end when everything is closed.
func TestGoroutinesEnd(t *testing.T) {
	hosts := testHosts(t)
	r := newRig(t, hosts[0])
	r.join(testGroup(2), rdma.JoinFullMember)
	if n := watching(); n != 3 { // event channel, completion channel, device
		t.Errorf("%d goroutines watch, want 3", n)
	}
	r.close()
	for range 100 {
		if watching() == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d goroutines remain, want none", watching())
}

func watching() int {
	buf := make([]byte, 1<<20)
	return strings.Count(string(buf[:runtime.Stack(buf, true)]), "verbs.newWatch.func1(")
}

// Events report that a port goes down and up, and its state changes.
func TestPortEvents(t *testing.T) {
	hosts := testHosts(t)
	if !*ownKernel {
		t.Skip("the test takes an interface down: -verbs.ownkernel")
	}
	h := hosts[len(hosts)-1]
	p, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	dev, err := p.OpenDevice(h.device)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	for _, step := range []struct {
		link  string
		event rdma.AsyncEventType
		state rdma.PortState
	}{{"down", rdma.AsyncPortErr, rdma.PortDown}, {"up", rdma.AsyncPortActive, rdma.PortActive}} {
		command(t, "ip", "link", "set", h.netdev, step.link)
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		for {
			ev, err := dev.GetAsyncEvent(ctx)
			if err != nil {
				t.Fatalf("link %s: no event: %v", step.link, err)
			}
			if ev.Type == step.event && ev.Port == 1 {
				break
			}
		}
		cancel()
		a, err := dev.Port(1)
		if err != nil || a.State != step.state {
			t.Errorf("link %s: port is %v, error %v, want %v", step.link, a.State, err, step.state)
		}
		c, err := dev.(rdma.PortCounting).PortCounts(1)
		if err != nil || c.State != a.State || c.ActiveMTU != a.ActiveMTU || c.RateGbps != a.RateGbps || c.QKeyViolations != a.QKeyViolations {
			t.Errorf("link %s: PortCounts is %+v, want the values of Port: %+v; error %v", step.link, c, a, err)
		}
	}
}
