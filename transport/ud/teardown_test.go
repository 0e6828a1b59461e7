package ud_test

import (
	"slices"
	"testing"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/fabric"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/ud"
)

// ends records that an object is closed.
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

// Everything is closed in the order that rdma-core needs: first groups are left, because otherwise closing the queue
// pair fails or leaks; then address handles, which the device may use when it sends, and the queue pair; then the
// objects that the queue pair uses; last ids and their channels.
func TestTeardownOrder(t *testing.T) {
	r := newRig(t, fabric.Config{})
	s := newSpy(r.f)
	n, other := r.node(ud.Config{Provider: s}), r.node(ud.Config{})
	n.retain = true
	r.join(n, 1)
	r.send(r.sender(other, 1), "a peer")
	r.want(n, 1, "a peer")
	to := r.sender(n, 0)
	mem := alloc(t, n, 1<<16) // in an additional region
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
		t.Errorf("closed in the order\n%q, want\n%q", s.ended, want)
	}
	n.Free(mem)
}
