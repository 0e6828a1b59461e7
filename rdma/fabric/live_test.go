package fabric

import (
	"context"
	"errors"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/rdma"
)

// Close of a live fabric ends all goroutines, whatever is in progress.
func TestCloseLeavesNoGoroutine(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 20 {
		f := New(Config{Live: true, Latency: time.Hour})
		p := newPeer(t, f.AddHost(HostConfig{}))
		if err := p.id.JoinMulticast(testGroup(1), nil); err != nil {
			t.Fatal(err)
		}
		f.Close()
		f.Close()
		if f.Step() {
			t.Error("Step works on a live fabric")
		}
	}
	testenv.AwaitGoroutines(t, before)
}

// A wait ends when its object is closed or its context is done.
func TestWaitingEnds(t *testing.T) {
	f := New(Config{Live: true})
	defer f.Close()
	h := f.AddHost(HostConfig{})
	dev, err := h.OpenDevice("sim0")
	if err != nil {
		t.Fatal(err)
	}
	ch, _ := h.NewEventChannel()
	comp, _ := dev.NewCompChannel()
	ctx, cancel := context.WithCancel(context.Background())
	errs := make(chan error, 3)
	go func() { errs <- second(ch.GetEvent(context.Background())) }()
	go func() { errs <- second(comp.Wait(context.Background())) }()
	go func() { errs <- second(dev.GetAsyncEvent(ctx)) }()
	runtime.Gosched()
	if err := ch.Close(); err != nil {
		t.Fatal(err)
	}
	if err := comp.Close(); err != nil {
		t.Fatal(err)
	}
	closed := 0
	for range 2 {
		if err := <-errs; errors.Is(err, net.ErrClosed) {
			closed++
		}
	}
	cancel()
	if err := <-errs; closed != 2 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d channels closed, error %v, want 2 and %v", closed, err, context.Canceled)
	}
}

// Leave and Destroy wait for acknowledgements or the end of their context.
func TestLeaveWaits(t *testing.T) {
	f := New(Config{Live: true})
	defer f.Close()
	p := newPeer(t, f.AddHost(HostConfig{}))
	if err := p.id.JoinMulticast(testGroup(1), nil); err != nil {
		t.Fatal(err)
	}
	ev, err := p.ch.GetEvent(context.Background())
	if err != nil || ev.Type != rdma.EventMulticastJoin {
		t.Fatalf("event %v, error %v, want a join", ev, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := p.id.LeaveMulticast(ctx, testGroup(1)); !errors.Is(err, context.Canceled) {
		t.Errorf("leave with an unacknowledged event fails with %v, want %v", err, context.Canceled)
	}
	if err := p.id.DestroyQP(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- p.id.Destroy(context.Background()) }()
	if err := ev.Ack(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Many goroutines use the same objects, as a test for the race detector. Each message is received by each permanent
// member.
func TestConcurrentUse(t *testing.T) {
	f := New(Config{Live: true, Switches: 2})
	defer f.Close()
	const messages = 2000
	ctx := context.Background()
	join := func(p *peer, g rdma.Addr) rdma.AH {
		if err := p.id.JoinMulticast(g, nil); err != nil {
			t.Fatal(err)
		}
		ev, err := p.ch.GetEvent(ctx)
		if err != nil || ev.Err() != nil {
			t.Fatalf("event %v, error %v, want one without error", ev, err)
		}
		defer ev.Ack()
		return p.ah(ev)
	}
	var comp rdma.CompChannel
	to := newPeerWith(t, f.AddHost(HostConfig{}), peerAttr(), 1024, func(d rdma.Device) rdma.CompChannel { comp, _ = d.NewCompChannel(); return comp })
	from, noise := newPeer(t, f.AddHost(HostConfig{})), newPeer(t, f.AddHost(HostConfig{}))
	join(to, testGroup(1))
	ah := join(from, testGroup(1))
	to.post(peerSlots)

	var wg sync.WaitGroup
	var received, sent atomic.Int64
	var credits = make(chan struct{}, 16) // so that receives are always posted
	stop := make(chan struct{})
	wg.Go(func() { // receiver: waits for notifications, and posts again
		wcs := make([]rdma.WorkCompletion, 16)
		for received.Load() < messages {
			if err := to.cq.RequestNotify(false); err != nil {
				t.Error(err)
				return
			}
			n, err := to.cq.Poll(wcs)
			if err != nil {
				t.Error(err)
				return
			}
			if n == 0 {
				if _, err := comp.Wait(ctx); err != nil {
					t.Error(err)
					return
				}
				continue
			}
			for _, wc := range wcs[:n] {
				if _, err := to.qp.PostRecv([]rdma.RecvWR{to.recvWR(int(wc.WRID))}); err != nil {
					t.Error(err)
				}
				<-credits
			}
			received.Add(int64(n))
		}
		close(stop)
	})
	for range 2 { // senders on one queue pair
		wg.Go(func() {
			wcs := make([]rdma.WorkCompletion, 16)
			for sent.Add(1) <= messages {
				credits <- struct{}{}
				for {
					wr := rdma.SendWR{SG: []rdma.SGE{{Buf: from.mem[:100], LKey: from.mr.LKey()}}, Opcode: rdma.OpSend, Flags: rdma.SendSignaled, AH: ah, QKey: rdma.UDPQKey}
					_, err := from.qp.PostSend([]rdma.SendWR{wr})
					if _, perr := from.cq.Poll(wcs); perr != nil {
						t.Error(perr)
					}
					if err == nil {
						break
					}
				}
			}
		})
	}
	wg.Go(func() { // adds and removes a host, reads and changes
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			join(noise, testGroup(2+i%3)).Close()
			if err := noise.id.LeaveMulticast(ctx, testGroup(2+i%3)); err != nil {
				t.Error(err)
			}
			f.hosts[2].Port(0, 1).SetPKeys(rdma.DefaultPKey, rdma.PKey(0x8001+i%5))
			_, _ = noise.dev.Port(1)
			_, _ = noise.qp.Query()
			f.Stats()
			f.Trace()
		}
	})
	wg.Wait()
	if s := f.Stats(); s.Sent != messages || received.Load() != messages {
		t.Errorf("%d messages received, want %d sent and received: %+v", received.Load(), messages, s)
	}
}
