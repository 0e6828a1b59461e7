package ud_test

import (
	"errors"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/rdma/fabric"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/ud"
)

// The loop polls before it sleeps, because a waiter reports only later completions.
func TestPollsBeforeWaiting(t *testing.T) {
	r := newRig(t, fabric.Config{SendDelay: time.Millisecond})
	s := newSpy(r.f)
	s.waiter = &deafWaiter{}
	n, other := r.node(ud.Config{Provider: s}), r.node(ud.Config{})
	wait := func(what string, sleeps bool) {
		t.Helper()
		s.waiter.waits = nil
		if err := n.Wait(time.Hour); err != nil {
			t.Fatal(err)
		}
		if slept := len(s.waiter.waits) > 0; slept != sleeps {
			t.Errorf("%s: the loop sleeps: %v, want %v", what, slept, sleeps)
		}
	}
	pass := func() { r.f.AdvanceTo(r.f.Now() + 10*time.Millisecond) }

	r.join(n, 0)
	n.poll()
	wait("nothing has arrived", true)
	r.send(r.sender(other, 0), "x")
	pass()
	wait("a packet has arrived", false)
	r.want(n, 0, "x")
	wait("it was polled", true)

	to := r.sender(n, 1)
	n.poll()
	r.send(to, "y")
	wait("a send is pending", true)
	pass()
	wait("a send is completed", false)
	wait("its completion was polled", true)

	if err := n.Join(2); err != nil {
		t.Fatal(err)
	}
	n.poll()
	wait("the subnet manager was asked", true)
	pass()
	wait("the connection manager has an event", false)
	wait("the transport has an event", false)
	r.event(n, 2, transport.RoleReceiver, transport.Joined)
	wait("it was polled", true)

	n.Wake()
	if !s.waiter.woken {
		t.Error("Wake does not reach the waiter")
	}
}

// A sleeping loop is woken when the send queue has room again, whichever call filled it, on devices with and without a
// waiter.
func TestWokenByRoom(t *testing.T) {
	for _, own := range []bool{false, true} {
		for _, asleep := range []bool{false, true} {
			f := fabric.New(fabric.Config{Live: true, SendDelay: 20 * time.Millisecond})
			defer f.Close()
			host := f.AddHost(fabric.HostConfig{})
			cfg := ud.Config{Provider: host, SendQueue: 16}
			if own {
				cfg.Provider = waitingHost{host}
			}
			tr, err := ud.Open(cfg)
			if err != nil {
				t.Fatal(err)
			}
			batch := transport.NewBatch(1)
			poll := func() {
				if err := tr.Poll(batch); err != nil {
					t.Fatal(err)
				}
			}
			to, err := tr.NewSender(0)
			if err != nil {
				t.Fatal(err)
			}
			for poll(); len(batch.Events) == 0; poll() {
				tr.Wait(time.Millisecond)
			}
			for range 3 { // events of the join
				tr.Wait(time.Millisecond)
				poll()
			}
			fill := func() {
				for {
					if _, err := to.Send(one("x")); errors.Is(err, transport.ErrBusy) {
						return
					} else if err != nil {
						t.Error(err)
						return
					}
				}
			}
			woken := make(chan struct{})
			sleep := func() {
				defer close(woken)
				tr.Wait(-1)
			}
			if asleep {
				go sleep()
				time.Sleep(5 * time.Millisecond) // the result does not depend on this time
				fill()
			} else {
				fill()
				go sleep()
			}
			select {
			case <-woken:
			case <-time.After(20 * time.Second):
				t.Errorf("own waiter %v, asleep before %v: the loop is not woken when the queue has room", own, asleep)
				tr.Wake()
				<-woken
			}
			tr.Close()
			for tr.Poll(batch) == nil {
				tr.Wait(-1)
			}
		}
	}
}
