package ud_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/fabric"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/ud"
)

// states are what the subnet administrator was asked for, by host.
func (r *rig) states() map[string][]rdma.JoinState {
	m := make(map[string][]rdma.JoinState)
	for _, rec := range r.f.Trace() {
		if rec.Kind == fabric.SASet {
			m[rec.Host] = append(m[rec.Host], rec.State)
		}
	}
	return m
}

// A publisher joins send-only: it is not attached, and receives nothing, though the subnet delivers its
// packets back to its port. docs/protocol §17.4.
func TestPublisherHearsNothing(t *testing.T) {
	flavors(t, func(t *testing.T, flavor fabric.Flavor) {
		r := newRig(t, fabric.Config{Flavor: flavor})
		pub, sub := r.node(ud.Config{}), r.node(ud.Config{})
		r.join(sub, 2)
		s := r.sender(pub, 2)
		other := r.sender(sub, 2) // of a host that is a subscriber too
		r.send(s, "from afar")
		r.want(sub, 2, "from afar")
		r.send(other, "own")
		r.want(sub, 2, "own")
		r.quiet(time.Millisecond)
		if n := pub.Stats().PacketsReceived; n != 0 {
			t.Errorf("the publisher received %d packets", n)
		}
		if flavor != fabric.InfiniBand {
			for _, rec := range r.f.Trace() {
				if rec.Kind == fabric.IGMPReport && rec.Host == pub.host.HostName() {
					t.Errorf("the publisher sent an IGMP report: %v", rec)
				}
			}
			return
		}
		asked := r.states()
		if got := asked[pub.host.HostName()]; len(got) != 1 || got[0] != rdma.StateSendOnlyFullMember {
			t.Errorf("the publisher asked for %v, want one send-only membership", got)
		}
	})
}

// If the subnet manager refuses send-only members, publishers are full ones, and receive nothing either. It is
// logged once, and counted. docs/protocol §17.4.
func TestFallBackToFullMember(t *testing.T) {
	r := newRig(t, fabric.Config{SM: fabric.SM{NoSendOnly: true}})
	var log bytes.Buffer
	pub := r.node(ud.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	sub := r.node(ud.Config{})
	r.join(sub, 0)
	s, second := r.sender(pub, 0), r.sender(pub, 1)
	r.send(s, "hello")
	r.want(sub, 0, "hello")
	r.quiet(time.Millisecond)
	asked := r.states()[pub.host.HostName()]
	want := []rdma.JoinState{rdma.StateSendOnlyFullMember, rdma.StateFullMember, rdma.StateSendOnlyFullMember, rdma.StateFullMember}
	if len(asked) != len(want) {
		t.Fatalf("the publisher asked for %v, want %v", asked, want)
	}
	for i := range want {
		if asked[i] != want[i] {
			t.Fatalf("the publisher asked for %v, want %v", asked, want)
		}
	}
	st := pub.Stats()
	if st.SendOnlyRefused != 2 || st.JoinsFailed != 0 || st.PacketsReceived != 0 {
		t.Errorf("counters: %+v", st)
	}
	if n := strings.Count(log.String(), "send-only join was refused"); n != 1 {
		t.Errorf("reported %d times that send-only was refused:\n%s", n, log.String())
	}
	s.Close()
	second.Close()
	r.event(pub, 0, transport.RoleSender, transport.Left)
	r.event(pub, 1, transport.RoleSender, transport.Left)
}

// Events that end memberships are reported, and publishers and subscribers join again; then packets
// flow as before.
func TestLostAndJoinedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		strike func(r *rig, n *node)
		all    bool  // strikes all ports
		then   error // another cause, reported later
	}{
		"re-register":        {func(_ *rig, n *node) { n.host.Port(0, 1).Reregister() }, false, nil},
		"LID change":         {func(_ *rig, n *node) { n.host.Port(0, 1).ChangeLID() }, false, nil},
		"new subnet manager": {func(r *rig, _ *node) { r.f.RestartSM() }, true, nil},
		"port down and up": {func(r *rig, n *node) {
			n.host.Port(0, 1).SetUp(false)
			r.quiet(10 * time.Second)
			n.host.Port(0, 1).SetUp(true)
		}, false, syscall.ETIMEDOUT},
	} {
		t.Run(name, func(t *testing.T) {
			for _, role := range []transport.Role{transport.RoleReceiver, transport.RoleSender} {
				r := newRig(t, fabric.Config{})
				pub, sub := r.node(ud.Config{}), r.node(ud.Config{})
				r.join(sub, 1)
				s := r.sender(pub, 1)
				struck, other := sub, pub
				otherRole := transport.RoleSender
				if role == transport.RoleSender {
					struck, other, otherRole = pub, sub, transport.RoleReceiver
				}
				c.strike(r, struck)
				e := r.event(struck, 1, role, transport.Lost)
				if !errors.Is(e.Err, syscall.ENETRESET) {
					t.Errorf("lost: %v", e.Err)
				}
				if c.then != nil {
					e = r.event(struck, 1, role, transport.Lost)
					if !errors.Is(e.Err, c.then) {
						t.Errorf("then: %v, want %v", e.Err, c.then)
					}
				}
				r.event(struck, 1, role, transport.Joined)
				if c.all {
					r.event(other, 1, otherRole, transport.Lost)
					r.event(other, 1, otherRole, transport.Joined)
				}
				r.send(s, "as before")
				r.want(sub, 1, "as before")
				if st := struck.Stats(); st.MembershipsLost != 1 {
					t.Errorf("%d memberships were counted as lost", st.MembershipsLost)
				}
				if len(pub.events)+len(sub.events) > 0 {
					t.Errorf("more events: %+v %+v", pub.events, sub.events)
				}
			}
		})
	}
}

// While its membership is lost a publisher cannot send: the MLID may be
// another group's by now.
func TestSendWhileLost(t *testing.T) {
	r := newRig(t, fabric.Config{})
	pub := r.node(ud.Config{})
	s := r.sender(pub, 0)
	pub.host.Port(0, 1).SetUp(false)
	r.event(pub, 0, transport.RoleSender, transport.Lost)
	if n, err := s.Send(one("lost")); n != 0 || !errors.Is(err, transport.ErrNotReady) {
		t.Errorf("Send: %d, %v", n, err)
	}
	// It can end while it waits to join again.
	s.Close()
	r.event(pub, 0, transport.RoleSender, transport.Left)
	pub.host.Port(0, 1).SetUp(true)
	r.quiet(2 * time.Second)
	if len(pub.events) > 0 {
		t.Errorf("events of a group that was left: %+v", pub.events)
	}
}

// On RoCE no membership ends when the link is down, but nothing is received: the loss is reported, and
// groups are joined again when the link is back.
func TestRoCELinkDownAndUp(t *testing.T) {
	r := newRig(t, fabric.Config{Flavor: fabric.RoCE})
	pub, sub := r.node(ud.Config{}), r.node(ud.Config{})
	r.join(sub, 0)
	s := r.sender(pub, 0)
	sub.host.Port(0, 1).SetUp(false)
	r.send(s, "into the void")
	r.event(sub, 0, transport.RoleReceiver, transport.Lost)
	sub.host.Port(0, 1).SetUp(true)
	r.event(sub, 0, transport.RoleReceiver, transport.Joined)
	r.send(s, "back")
	r.want(sub, 0, "back")
}

// When MLIDs run out the join fails with ErrGroupLimit, for both roles, and
// works when one is free again.
func TestMLIDsExhausted(t *testing.T) {
	r := newRig(t, fabric.Config{SM: fabric.SM{MLIDs: 1 + 2}}) // one is IPoIB's
	n := r.node(ud.Config{})
	r.join(n, 0)
	s1 := r.sender(n, 1)
	if err := n.Join(2); err != nil {
		t.Fatal(err)
	}
	e := r.event(n, 2, transport.RoleReceiver, transport.Failed)
	if !errors.Is(e.Err, transport.ErrGroupLimit) || !errors.Is(e.Err, syscall.EINVAL) {
		t.Errorf("Join: %v", e.Err)
	}
	s3, err := n.NewSender(3)
	if err != nil {
		t.Fatal(err)
	}
	e = r.event(n, 3, transport.RoleSender, transport.Failed)
	if !errors.Is(e.Err, transport.ErrGroupLimit) {
		t.Errorf("NewSender: %v", e.Err)
	}
	if _, err := s3.Send(one("x")); !errors.Is(err, transport.ErrGroupLimit) {
		t.Errorf("Send to a group that could not be joined: %v", err)
	}
	if st := n.Stats(); st.JoinsFailed != 2 || st.SendOnlyRefused != 0 {
		t.Errorf("counters: %+v", st)
	}
	s1.Close()
	r.event(n, 1, transport.RoleSender, transport.Left)
	r.join(n, 2)
	s3.Close()
	r.quiet(time.Millisecond)
	if err := n.Leave(2); err != nil {
		t.Fatal(err)
	}
	r.event(n, 2, transport.RoleReceiver, transport.Left)
	s := r.sender(n, 3)
	r.send(s, "at last")
}

// The device's limit on attachments refuses a group, and takes nothing away
// from the others.
func TestAttachLimit(t *testing.T) {
	flavors(t, func(t *testing.T, flavor fabric.Flavor) {
		r := newRig(t, fabric.Config{Flavor: flavor})
		host := r.f.AddHost(fabric.HostConfig{Limits: func(a *rdma.DeviceAttr) { a.MaxTotalMcastQPAttach = 2 }})
		n, pub := r.node(ud.Config{Provider: host}), r.node(ud.Config{})
		r.join(n, 0)
		r.join(n, 1)
		if err := n.Join(2); err != nil {
			t.Fatal(err)
		}
		e := r.event(n, 2, transport.RoleReceiver, transport.Failed)
		if !errors.Is(e.Err, transport.ErrGroupLimit) || !errors.Is(e.Err, syscall.ENOMEM) {
			t.Errorf("Join: %v", e.Err)
		}
		r.sender(n, 2) // which needs no attachment
		r.send(r.sender(pub, 1), "still here")
		r.want(n, 1, "still here")
		if err := n.Leave(0); err != nil {
			t.Fatal(err)
		}
		r.event(n, 0, transport.RoleReceiver, transport.Left)
		r.join(n, 2)
	})
}

// A subnet manager that does not answer fails a first join after some tries;
// one that comes back in time does not.
func TestSilentSubnetManager(t *testing.T) {
	r := newRig(t, fabric.Config{})
	n := r.node(ud.Config{})
	silent := fabric.SM{Silent: true, ResponseDelay: time.Microsecond}
	r.f.SetSM(silent)
	if err := n.Join(0); err != nil {
		t.Fatal(err)
	}
	start := r.f.Now()
	e := r.event(n, 0, transport.RoleReceiver, transport.Failed)
	if !errors.Is(e.Err, syscall.ETIMEDOUT) || errors.Is(e.Err, transport.ErrGroupLimit) {
		t.Errorf("Join: %v", e.Err)
	}
	if d := r.f.Now() - start; d < 9*time.Second || d > 10*time.Second {
		t.Errorf("it failed after %v, want three times the kernel's 3 s", d)
	}
	if err := n.Join(0); err != nil {
		t.Fatal(err)
	}
	r.quiet(4 * time.Second)
	r.f.SetSM(fabric.SM{})
	r.event(n, 0, transport.RoleReceiver, transport.Joined)
}

// IPoIB must be up on InfiniBand, and the error says so.
func TestIPoIBDown(t *testing.T) {
	r := newRig(t, fabric.Config{})
	n := r.node(ud.Config{})
	n.host.Port(0, 1).SetIPoIB(false)
	if err := n.Join(0); err != nil {
		t.Fatal(err)
	}
	e := r.event(n, 0, transport.RoleReceiver, transport.Failed)
	if !errors.Is(e.Err, syscall.EADDRNOTAVAIL) || !strings.Contains(e.Err.Error(), "IPoIB") {
		t.Errorf("Join: %v", e.Err)
	}
}

// Join, Leave and senders in any order between two polls end as they were asked
// to last.
func TestChangesOfMind(t *testing.T) {
	r := newRig(t, fabric.Config{})
	n, pub := r.node(ud.Config{}), r.node(ud.Config{})
	s := r.sender(pub, 0)
	n.Join(0)
	n.Leave(0)
	n.Join(0)
	r.event(n, 0, transport.RoleReceiver, transport.Left) // the cancelled join
	r.event(n, 0, transport.RoleReceiver, transport.Joined)
	r.send(s, "here")
	r.want(n, 0, "here")
	n.Leave(0)
	n.Join(0)
	n.Leave(0)
	r.event(n, 0, transport.RoleReceiver, transport.Left)
	r.event(n, 0, transport.RoleReceiver, transport.Left)
	a, err := n.NewSender(1)
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
	r.quiet(time.Millisecond)
	if len(n.events) > 0 {
		t.Errorf("events: %+v", n.events)
	}
	if m := r.f.Members(rdma.MGIDForIB(n.GroupAddr(0), rdma.PortSpaceUDP, rdma.DefaultScope, rdma.DefaultPKey)); len(m) != 1 {
		t.Errorf("members of the group that was left: %v", m)
	}
}

// A new sender does not get the error of an earlier one's failed join: until its own attempt is over it
// is not ready.
func TestFailureOfEarlierSender(t *testing.T) {
	for _, polled := range []bool{false, true} {
		r := newRig(t, fabric.Config{SM: fabric.SM{MLIDs: 1}}) // that is IPoIB's
		n := r.node(ud.Config{})
		early, err := n.NewSender(0)
		if err != nil {
			t.Fatal(err)
		}
		r.event(n, 0, transport.RoleSender, transport.Failed)
		if _, err := early.Send(one("x")); !errors.Is(err, transport.ErrGroupLimit) {
			t.Errorf("Send after the join has failed: %v", err)
		}
		early.Close()
		if polled {
			r.quiet(time.Millisecond)
		}
		r.f.SetSM(fabric.SM{MLIDs: 2})
		late, err := n.NewSender(0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := late.Send(one("x")); !errors.Is(err, transport.ErrNotReady) {
			t.Errorf("polled %v: Send before the group is joined: %v", polled, err)
		}
		r.event(n, 0, transport.RoleSender, transport.Joined)
		r.send(late, "x")
	}
}
