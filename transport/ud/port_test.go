package ud_test

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/fabric"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/ud"
)

// While the port is down nothing is sent, groups are reported as lost with that reason, and no join is attempted. When
// it is up, all groups are joined again. The same holds for a loop that spins and one that waits.
func TestPortDown(t *testing.T) {
	for _, waits := range []bool{false, true} {
		r := newRig(t, fabric.Config{Flavor: fabric.RoCE})
		n, other := r.node(ud.Config{}), r.node(ud.Config{})
		n.retain, other.retain = true, true
		r.join(n, 0)
		r.join(other, 1)
		s, back := r.sender(n, 1), r.sender(other, 0)
		r.send(s, "there")
		r.want(other, 1, "there")
		r.send(back, "and back")
		r.want(n, 0, "and back")
		turn := func() {
			t.Helper()
			for range 3 {
				r.quiet(100 * time.Millisecond)
				if waits {
					if err := n.Wait(time.Nanosecond); err != nil {
						t.Fatal(err)
					}
				}
			}
			r.quiet(tick)
		}
		for range 2 {
			n.host.Port(0, 1).SetUp(false)
			turn()
			for _, role := range []transport.Role{transport.RoleReceiver, transport.RoleSender} {
				if e := r.event(n, int(role), role, transport.Lost); !errors.Is(e.Err, syscall.ENETDOWN) {
					t.Errorf("event of a loss has error %v, want %v", e.Err, syscall.ENETDOWN)
				}
			}
			if k, err := s.Send(one("x")); k != 0 || !errors.Is(err, transport.ErrNotReady) {
				t.Errorf("Send: %d packets, error %v, want 0 and %v", k, err, transport.ErrNotReady)
			}
			if err := n.Reply(n.peer, []byte("x")); !errors.Is(err, transport.ErrNotReady) {
				t.Errorf("Reply: error %v, want %v", err, transport.ErrNotReady)
			}
			if err := n.Join(2); err != nil {
				t.Fatal(err)
			}
			r.quiet(5 * time.Second)
			if st := n.Stats(); len(n.events) > 0 || st.JoinsFailed > 0 || st.SendErrors > 0 || st.SendBusy > 0 {
				t.Errorf("while the port is down: events %+v, statistics %+v, want no events and no failures", n.events, st)
			}
			n.host.Port(0, 1).SetUp(true)
			turn()
			joined := 0
			r.until("all groups are joined", func() bool { joined = len(n.events); return joined >= 3 })
			for _, e := range n.events {
				if e.State != transport.Joined {
					t.Errorf("event %+v, want %v", e, transport.Joined)
				}
			}
			n.events = nil
			r.send(s, "after the link came up")
			r.want(other, 1, "after the link came up")
			r.send(back, "and back again")
			r.want(n, 0, "and back again")
			if err := n.Leave(2); err != nil {
				t.Fatal(err)
			}
			r.event(n, 2, transport.RoleReceiver, transport.Left)
		}
	}
}

// Without its GID the port sends nothing either, although no call returns an error.
func TestLostAddress(t *testing.T) {
	r := newRig(t, fabric.Config{Flavor: fabric.RoCE})
	n, other := r.node(ud.Config{}), r.node(ud.Config{})
	s := r.sender(n, 1)
	port := n.host.Port(0, 1)
	port.SetPKeys(0xffff, 0x8001)
	other.host.Port(0, 1).RemoveGIDs()
	r.quiet(300 * time.Millisecond)
	r.send(s, "with a GID")
	for range 3 {
		port.RemoveGIDs()
		r.quiet(300 * time.Millisecond)
	}
	if e := r.event(n, 1, transport.RoleSender, transport.Lost); !errors.Is(e.Err, syscall.EADDRNOTAVAIL) {
		t.Errorf("event of a loss has error %v, want %v", e.Err, syscall.EADDRNOTAVAIL)
	}
	if k, err := s.Send(one("x")); k != 0 || !errors.Is(err, transport.ErrNotReady) {
		t.Errorf("Send: %d packets, error %v, want 0 and %v", k, err, transport.ErrNotReady)
	}
	if len(n.events) > 0 {
		t.Errorf("events %+v, want none", n.events)
	}
}

// A port that cannot be queried keeps its last state, and is queried again.
func TestPortQueryFails(t *testing.T) {
	r := newRig(t, fabric.Config{Flavor: fabric.RoCE})
	h := &blindHost{Host: r.f.AddHost(fabric.HostConfig{})}
	n := r.node(ud.Config{Provider: h})
	s := r.sender(n, 1)
	r.quiet(100 * time.Millisecond)
	port := h.Port(0, 1)
	for i, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EPERM} {
		up := i%2 == 1
		h.blind = errno
		port.SetUp(up)
		r.quiet(2 * time.Second)
		if len(n.events) > 0 {
			t.Fatalf("%v: events %+v, want none", errno, n.events)
		}
		if k, err := s.Send(one("x")); (k == 1) == up || up && !errors.Is(err, transport.ErrNotReady) {
			t.Errorf("%v: Send: %d packets, error %v, want ErrNotReady: %v", errno, k, err, up)
		}
		h.blind = 0
		want := transport.Lost
		if up {
			want = transport.Joined
		}
		r.event(n, 1, transport.RoleSender, want)
	}
}

// blindHost is a host with ports that cannot be queried while blind is set.
type blindHost struct {
	*fabric.Host
	blind syscall.Errno
}

type blindDevice struct {
	rdma.Device
	h *blindHost
}

func (h *blindHost) OpenDevice(name string) (rdma.Device, error) {
	d, err := h.Host.OpenDevice(name)
	return &blindDevice{d, h}, err
}

func (d *blindDevice) Port(num uint8) (rdma.PortAttr, error) {
	if d.h.blind != 0 {
		return rdma.PortAttr{}, d.h.blind
	}
	return d.Device.Port(num)
}

// A packet that is longer than a reduced MTU is not lost: it can be sent when the MTU is restored.
func TestReducedMTU(t *testing.T) {
	r := newRig(t, fabric.Config{Flavor: fabric.RoCE})
	p := newSpy(r.f)
	n, other := r.node(ud.Config{Provider: p}), r.node(ud.Config{})
	r.join(other, 0)
	s := r.sender(n, 0)
	p.deny = &rdma.PostError{Err: rdma.Errorf("post send", syscall.EMSGSIZE, "the MTU is 256")}
	for range 2 {
		if k, err := s.Send(one("long")); k != 0 || !errors.Is(err, transport.ErrNotReady) || !errors.Is(err, syscall.EMSGSIZE) {
			t.Errorf("Send: %d packets, error %v, want 0, %v and %v", k, err, transport.ErrNotReady, syscall.EMSGSIZE)
		}
	}
	if st := n.Stats(); st.SendErrors != 0 {
		t.Errorf("%d send errors, want none", st.SendErrors)
	}
	p.deny = nil
	r.send(s, "long")
	r.want(other, 0, "long")
}
