package fabric

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
)

// After the removal of its device an id reports only the removal, and not the results of pending operations.
func TestRemovalEndsJoins(t *testing.T) {
	for _, flavor := range []Flavor{InfiniBand, RoCE} {
		f := New(Config{Flavor: flavor})
		p := newPeer(t, f.AddHost(HostConfig{}))
		if err := p.id.JoinMulticast(testGroup(1), nil); err != nil {
			t.Fatal(err)
		}
		f.hosts[0].RemoveDevice(0) // before a request is sent
		f.AdvanceTo(f.Now() + time.Minute)
		if ev := p.event(); ev.Type != rdma.EventDeviceRemoval {
			t.Errorf("%v: event %v, want a device removal", flavor, ev.Type)
		}
		if ev, err := p.ch.TryGetEvent(); err != rdma.ErrNoEvent {
			t.Errorf("%v: event %+v, error %v, want none", flavor, ev, err)
		}
		f.Close()
	}
}

// An id that is being destroyed has no more events.
func TestRemovalAfterDestroy(t *testing.T) {
	f := New(Config{})
	defer f.Close()
	p := newPeer(t, f.AddHost(HostConfig{}))
	if err := p.id.JoinMulticast(testGroup(1), nil); err != nil {
		t.Fatal(err)
	}
	p.run()
	ev, err := p.ch.TryGetEvent()
	if err != nil {
		t.Fatal(err)
	}
	pending, err := p.id.BeginDestroy()
	if err != nil || pending.Done() {
		t.Fatalf("destroying the id: error %v, done %v, want none and false before the event is acknowledged", err, pending.Done())
	}
	f.hosts[0].RemoveDevice(0)
	p.run()
	if ev, err := p.ch.TryGetEvent(); err != rdma.ErrNoEvent {
		t.Errorf("event %+v, error %v, want none", ev, err)
	}
	if err := ev.Ack(); err != nil || !pending.Done() {
		t.Errorf("after the acknowledgement: error %v, done %v, want none and true", err, pending.Done())
	}
}
