package ud_test

import (
	"slices"
	"testing"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/fabric"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/ud"
)

// ends notes that an object is given back.
func (s *spy) ends(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = append(s.ended, what)
}

func (id *spyID) BeginLeave(group rdma.Addr) (rdma.Pending, error) {
	id.s.ends("leave")
	return id.ID.BeginLeave(group)
}

func (id *spyID) DestroyQP() error {
	id.s.ends("queue pair")
	return id.ID.DestroyQP()
}

func (id *spyID) BeginDestroy() (rdma.Pending, error) {
	id.s.ends("id")
	return id.ID.BeginDestroy()
}

func (q *spyCQ) Close() error {
	q.s.ends("completion queue")
	return q.CQ.Close()
}

func (c *spyComp) Close() error {
	c.s.ends("completion channel")
	return c.CompChannel.Close()
}

func (pd *spyPD) Close() error {
	pd.s.ends("domain")
	return pd.PD.Close()
}

func (c *spyChannel) Close() error {
	c.s.ends("event channel")
	return c.EventChannel.Close()
}

// Everything is closed in the order that rdma-core needs: groups are left before the queue pair is closed,
// which would be busy or leak; address handles before it, since a device may look them up when it sends;
// objects that the queue pair uses after it; then ids, and their channels.
func TestTeardownOrder(t *testing.T) {
	r := newRig(t, fabric.Config{})
	s := newSpy(r.f)
	n, other := r.node(ud.Config{Provider: s}), r.node(ud.Config{})
	n.retain = true
	r.join(n, 1)
	r.send(r.sender(other, 1), "a peer")
	r.want(n, 1, "a peer")
	to := r.sender(n, 0)
	mem := alloc(t, n, 1<<16) // a region of its own
	if got, err := to.Send(&transport.Outbound{Data: mem[:9], Stride: 9, Count: 1, Lens: []uint16{9}}); got != 1 {
		t.Fatal(err)
	}
	s.ended = nil
	r.close(n)
	want := []string{
		"leave", "leave", "address handle", "address handle", "queue pair", "completion queue", "completion queue",
		"completion channel", "region", "region", "domain", "id", "id", "event channel",
	}
	if !slices.Equal(s.ended, want) {
		t.Errorf("given back in the order\n%q, want\n%q", s.ended, want)
	}
	n.Free(mem)
}
