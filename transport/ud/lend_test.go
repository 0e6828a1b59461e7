package ud_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/rdma/fabric"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/ud"
)

// A caller may keep a quarter of the receive queue. A caller that keeps more is lent at most one batch beyond that, so
// that enough receives stay posted. Then the queue fills up, further packets are counted as lost, and kept trains stay
// unchanged.
func TestKeepingMoreThanAQuarter(t *testing.T) {
	for _, queue := range []int{16, 64, 256} {
		r := newRig(t, fabric.Config{})
		s := newSpy(r.f)
		pub, sub := r.node(ud.Config{}), r.node(ud.Config{Provider: s, ReceiveQueue: queue})
		r.join(sub, 0)
		to := r.sender(pub, 0)
		c := sub.Capabilities()
		if c.LendMax != queue/4 {
			t.Errorf("LendMax of a receive queue of %d is %d, want a quarter", queue, c.LendMax)
		}
		limit := c.LendMax + c.Batch
		var kept []transport.Train
		poll := func() {
			if err := sub.Poll(sub.batch); err != nil {
				t.Fatal(err)
			}
			kept = append(kept, sub.batch.Trains...)
		}
		packets := limit + queue + 50
		for i := range packets {
			r.send(to, fmt.Sprint("packet ", i))
			r.f.AdvanceTo(r.f.Now() + tick)
			before := len(kept)
			poll()
			if n := sub.Stats().LendRefused; (n == 0) != (before <= c.LendMax) {
				t.Fatalf("queue %d: %d polls count as limited with %d trains kept", queue, n, before)
			}
			if len(kept) <= limit && s.posted < c.ReceiveCapacity {
				t.Fatalf("queue %d: %d receives are posted with %d trains kept", queue, s.posted, len(kept))
			}
		}
		if len(kept) != limit {
			t.Fatalf("queue %d: %d trains were lent to a caller that releases none, want %d", queue, len(kept), limit)
		}
		for i := range kept {
			if want := fmt.Sprint("packet ", i); string(kept[i].Data) != want {
				t.Fatalf("queue %d: lent train %d changed to %q, was %q", queue, i, kept[i].Data, want)
			}
			sub.Release(&kept[i])
		}
		kept = nil
		r.quiet(time.Millisecond)
		lost := int(sub.Stats().ReceiveOverflow)
		if waiting := len(sub.got); waiting < c.ReceiveCapacity || limit+waiting+lost != packets || lost < 50 {
			t.Errorf("queue %d: of %d packets %d were lent, %d waited, %d counted as lost", queue, packets, limit, waiting, lost)
		}
		sub.got, sub.groups = nil, nil
		r.send(to, "after")
		r.want(sub, 0, "after")
	}
}

// A caller that keeps all trains that can be lent is not woken by further packets, however many, and only one Poll
// counts as limited by them. Other requests to the loop still wake it, and so does a waiting packet once a train is
// released.
func TestWaitAtTheLendingLimit(t *testing.T) {
	for _, own := range []bool{false, true} {
		f := fabric.New(fabric.Config{Live: true})
		defer f.Close()
		open := func(cfg ud.Config) *ud.Transport {
			host := f.AddHost(fabric.HostConfig{})
			if cfg.Provider = host; own {
				cfg.Provider = waitingHost{host}
			}
			tr, err := ud.Open(cfg)
			if err != nil {
				t.Fatal(err)
			}
			return tr
		}
		pub, sub := open(ud.Config{}), open(ud.Config{ReceiveQueue: 16})
		batch := transport.NewBatch(64)
		until := func(tr *ud.Transport, done func() bool) {
			t.Helper()
			for limit := time.Now().Add(20 * time.Second); !done(); {
				if err := tr.Poll(batch); err != nil || time.Now().After(limit) {
					t.Fatalf("own waiter %v: the trains never arrived: %v", own, err)
				}
				tr.Wait(time.Millisecond)
			}
		}
		joined := func() bool { return len(batch.Events) > 0 }
		if err := sub.Join(0); err != nil {
			t.Fatal(err)
		}
		until(sub, joined)
		to, err := pub.NewSender(0)
		if err != nil {
			t.Fatal(err)
		}
		until(pub, joined)

		var kept []transport.Train
		c := sub.Capabilities()
		limit := c.LendMax + c.Batch
		sent := func() {
			until(pub, func() bool { n, _ := to.Send(one("x")); return n == 1 })
		}
		batch.Trains = batch.Trains[:0]
		for len(kept) < limit {
			sent()
			until(sub, func() bool {
				kept = append(kept, batch.Trains...)
				got := len(batch.Trains) > 0
				batch.Trains = batch.Trains[:0]
				return got
			})
		}
		for range c.ReceiveCapacity / 2 {
			sent()
		}
		until(pub, func() bool { return f.Stats().Delivered >= uint64(limit+c.ReceiveCapacity/2) })

		// Some calls may return for earlier events, but not all.
		asleep := make(chan int)
		ready := make(chan struct{})
		go func() {
			returns := 0
			for stop := false; !stop; returns++ {
				if err := sub.Poll(batch); err != nil || len(batch.Trains) > 0 {
					t.Errorf("own waiter %v: error %v, %d trains, want none", own, err, len(batch.Trains))
				}
				sub.Wait(-1)
				select {
				case <-ready:
					stop = true
				default:
					if returns > 100 {
						t.Errorf("own waiter %v: Wait keeps returning", own)
						stop = true
					}
				}
			}
			asleep <- returns
		}()
		time.Sleep(50 * time.Millisecond) // the result does not depend on this time
		close(ready)
		sub.Wake()
		<-asleep
		if n := sub.Stats().LendRefused; n == 0 || n > uint64(limit) {
			t.Errorf("own waiter %v: %d polls count as limited with %d trains kept", own, n, limit)
		}
		sub.Release(&kept[0])
		sub.Wait(-1) // the waiting packet can be lent now
		if err := sub.Poll(batch); err != nil || len(batch.Trains) != 1 {
			t.Errorf("own waiter %v: after one release %d trains, error %v, want 1", own, len(batch.Trains), err)
		}
		for _, tr := range []*ud.Transport{pub, sub} {
			tr.Close()
			for tr.Poll(batch) == nil {
				tr.Wait(-1)
			}
		}
	}
}
