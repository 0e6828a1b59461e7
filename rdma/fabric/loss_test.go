package fabric

import (
	"syscall"
	"testing"

	"github.com/fanfaremq/fanfare/rdma"
)

// A membership is lost only once: an id that has not left yet gets no events for the loss of later memberships.
func TestLostOnce(t *testing.T) {
	f := New(Config{})
	defer f.Close()
	h := f.AddHost(HostConfig{})
	early, late := newPeer(t, h), newPeer(t, h)
	early.join(testGroup(1), rdma.JoinFullMember)
	h.Port(0, 1).Reregister()
	early.run()
	if ev := early.event(); ev.Status != -int(syscall.ENETRESET) {
		t.Fatalf("event has status %d, want -ENETRESET", ev.Status)
	}
	late.join(testGroup(1), rdma.JoinFullMember)
	h.Port(0, 1).Reregister()
	late.run()
	if ev := late.event(); ev.Status != -int(syscall.ENETRESET) {
		t.Errorf("event has status %d, want -ENETRESET", ev.Status)
	}
	if ev, err := early.ch.TryGetEvent(); err != rdma.ErrNoEvent {
		t.Errorf("event %+v, error %v, want none", ev, err)
	}
}

// A change of the P_Key table ends a membership if the partition's index changes. With two keys of a partition, that of
// the full member counts.
func TestPKeyIndex(t *testing.T) {
	const full, limited, other = rdma.DefaultPKey, rdma.PKey(0x7fff), rdma.PKey(0x8001)
	for _, c := range []struct {
		before, after []rdma.PKey
		lost          bool
	}{
		{[]rdma.PKey{full}, []rdma.PKey{full, limited}, false},
		{[]rdma.PKey{full}, []rdma.PKey{limited, full}, true},
		{[]rdma.PKey{limited, full}, []rdma.PKey{other, full}, false},
		{[]rdma.PKey{full}, []rdma.PKey{other, full}, true},
		{[]rdma.PKey{full}, []rdma.PKey{limited}, false},
		{[]rdma.PKey{limited, full}, []rdma.PKey{limited}, true},
		{[]rdma.PKey{full}, []rdma.PKey{other}, true},
	} {
		f := New(Config{})
		p := newPeer(t, f.AddHost(HostConfig{}))
		f.hosts[0].Port(0, 1).SetPKeys(c.before...)
		p.join(testGroup(1), rdma.JoinFullMember)
		f.hosts[0].Port(0, 1).SetPKeys(c.after...)
		p.run()
		ev, err := p.ch.TryGetEvent()
		if c.lost && (err != nil || ev.Status != -int(syscall.ENETRESET)) || !c.lost && err != rdma.ErrNoEvent {
			t.Errorf("from %v to %v: event %+v, %v, want lost %v", c.before, c.after, ev, err, c.lost)
		}
		f.Close()
	}
}

// Another member on the port must request the group's existing values, because the port does not send another request.
func TestLocalMemberMustMatch(t *testing.T) {
	f := New(Config{SM: SM{Override: func(g *Group) { g.SL = 3 }}})
	defer f.Close()
	h := f.AddHost(HostConfig{})
	first, second := newPeer(t, h), newPeer(t, h)
	first.join(testGroup(1), rdma.JoinFullMember)
	f.Trace()
	if s := second.status(testGroup(1), rdma.JoinFullMember); s != -int(syscall.EINVAL) {
		t.Errorf("a request for SL 0 in a group of SL 3: status %d, want -EINVAL", s)
	}
	if tr := f.Trace(); len(tr) != 0 {
		t.Errorf("the subnet administrator was asked: %v, want no request", tr)
	}
}
