package fabric

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
)

// A destroyed id reports no events: neither queued ones nor the result of a join that was pending when its device was
// removed.
func TestDestroyedHasNoEvents(t *testing.T) {
	for name, before := range map[string]func(f *Fabric, p *peer){
		"joined": func(_ *Fabric, p *peer) { p.run() },
		"joining": func(f *Fabric, _ *peer) {
			f.AdvanceTo(f.Now() + time.Millisecond)
		},
		"join on a removed device": func(f *Fabric, _ *peer) {
			f.AdvanceTo(f.Now() + time.Millisecond)
			f.hosts[0].RemoveDevice(0)
		},
	} {
		for _, flavor := range []Flavor{InfiniBand, RoCE} {
			f := New(Config{Flavor: flavor, SM: SM{ResponseDelay: 10 * time.Millisecond}})
			p := newPeer(t, f.AddHost(HostConfig{}))
			ch, err := f.hosts[0].NewEventChannel()
			if err != nil {
				t.Fatal(err)
			}
			id, err := ch.CreateID(rdma.PortSpaceUDP, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := id.Bind(f.hosts[0].Addr()); err != nil {
				t.Fatal(err)
			}
			if err := id.JoinMulticast(testGroup(1), nil); err != nil {
				t.Fatal(err)
			}
			before(f, p)
			pending, err := id.BeginDestroy()
			if err != nil || !pending.Done() {
				t.Fatalf("%v, %s: destroying the id: done %v, error %v, want true and none", flavor, name, pending.Done(), err)
			}
			f.AdvanceTo(f.Now() + time.Minute)
			if ev, err := ch.TryGetEvent(); err != rdma.ErrNoEvent {
				t.Errorf("%v, %s: event %+v, error %v, want none of a destroyed id", flavor, name, ev, err)
			}
			if err := ch.Close(); err != nil {
				t.Errorf("%v, %s: the channel cannot be closed: %v", flavor, name, err)
			}
			if f.Members(p.mgid(testGroup(1))) != nil && name != "join on a removed device" {
				t.Errorf("%v, %s: the port is still a member", flavor, name)
			}
			f.Close()
		}
	}
}
