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

// states returns the join states that were requested from the subnet administrator, by host.
func (r *rig) states() map[string][]rdma.JoinState {
	m := make(map[string][]rdma.JoinState)
	for _, rec := range r.f.Trace() {
		if rec.Kind == fabric.SASet {
			m[rec.Host] = append(m[rec.Host], rec.State)
		}
	}
	return m
}

// A publisher joins as a send-only member: it is not attached and receives nothing, although the subnet delivers its
// packets to its own port as well. docs/protocol §17.4.
func TestPublisherReceivesNothing(t *testing.T) {
	flavors(t, func(t *testing.T, flavor fabric.Flavor) {
		r := newRig(t, fabric.Config{Flavor: flavor})
		pub, sub := r.node(ud.Config{}), r.node(ud.Config{})
		r.join(sub, 2)
		s := r.sender(pub, 2)
		other := r.sender(sub, 2) // of a host that is also a subscriber
		r.send(s, "from another host")
		r.want(sub, 2, "from another host")
		r.send(other, "own")
		r.want(sub, 2, "own")
		r.quiet(time.Millisecond)
		if n := pub.Stats().PacketsReceived; n != 0 {
			t.Errorf("the publisher received %d packets, want none", n)
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
			t.Errorf("the publisher requested %v, want one send-only membership", got)
		}
	})
}

// If the subnet manager refuses send-only members, publishers join as full ones, and still receive nothing. This is
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
		t.Fatalf("the publisher requested %v, want %v", asked, want)
	}
	for i := range want {
		if asked[i] != want[i] {
			t.Fatalf("the publisher requested %v, want %v", asked, want)
		}
	}
	st := pub.Stats()
	if st.SendOnlyRefused != 2 || st.JoinsFailed != 0 || st.PacketsReceived != 0 {
		t.Errorf("statistics %+v, want 2 refused send-only joins, no failed join and no packet", st)
	}
	if n := strings.Count(log.String(), "send-only join was refused"); n != 1 {
		t.Errorf("logged %d times that send-only was refused, want once:\n%s", n, log.String())
	}
	s.Close()
	second.Close()
	r.event(pub, 0, transport.RoleSender, transport.Left)
	r.event(pub, 1, transport.RoleSender, transport.Left)
}

// The loss of memberships is reported, and publishers and subscribers join again. Then packets are delivered as before.
func TestRejoin(t *testing.T) {
	for name, c := range map[string]struct {
		strike func(r *rig, n *node)
		all    bool  // affects all ports
		then   error // a second cause that is reported later
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
					t.Errorf("event of a loss has error %v, want %v", e.Err, syscall.ENETRESET)
				}
				if c.then != nil {
					e = r.event(struck, 1, role, transport.Lost)
					if !errors.Is(e.Err, c.then) {
						t.Errorf("second cause %v, want %v", e.Err, c.then)
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
					t.Errorf("%d memberships counted as lost, want 1", st.MembershipsLost)
				}
				if len(pub.events)+len(sub.events) > 0 {
					t.Errorf("events %+v and %+v, want none", pub.events, sub.events)
				}
			}
		})
	}
}

// While its membership is lost a publisher cannot send, because the MLID may belong to another group.
func TestSendWhileLost(t *testing.T) {
	r := newRig(t, fabric.Config{})
	pub := r.node(ud.Config{})
	s := r.sender(pub, 0)
	pub.host.Port(0, 1).SetUp(false)
	r.event(pub, 0, transport.RoleSender, transport.Lost)
	if n, err := s.Send(one("lost")); n != 0 || !errors.Is(err, transport.ErrNotReady) {
		t.Errorf("Send: %d packets, error %v, want 0 and %v", n, err, transport.ErrNotReady)
	}
	// A sender can be closed while it waits to join again.
	s.Close()
	r.event(pub, 0, transport.RoleSender, transport.Left)
	pub.host.Port(0, 1).SetUp(true)
	r.quiet(2 * time.Second)
	if len(pub.events) > 0 {
		t.Errorf("events of a left group: %+v, want none", pub.events)
	}
}

// On RoCE memberships do not end when the link is down, but nothing is received: the loss is reported, and groups are
// joined again when the link is up.
func TestRoCELinkDownAndUp(t *testing.T) {
	r := newRig(t, fabric.Config{Flavor: fabric.RoCE})
	pub, sub := r.node(ud.Config{}), r.node(ud.Config{})
	r.join(sub, 0)
	s := r.sender(pub, 0)
	sub.host.Port(0, 1).SetUp(false)
	r.send(s, "while the link is down")
	r.event(sub, 0, transport.RoleReceiver, transport.Lost)
	sub.host.Port(0, 1).SetUp(true)
	r.event(sub, 0, transport.RoleReceiver, transport.Joined)
	r.send(s, "back")
	r.want(sub, 0, "back")
}

// When all MLIDs are used, joins of both roles fail with ErrGroupLimit, and succeed when one is free again.
func TestMLIDsExhausted(t *testing.T) {
	r := newRig(t, fabric.Config{SM: fabric.SM{MLIDs: 1 + 2}}) // one is used by IPoIB
	n := r.node(ud.Config{})
	r.join(n, 0)
	s1 := r.sender(n, 1)
	if err := n.Join(2); err != nil {
		t.Fatal(err)
	}
	e := r.event(n, 2, transport.RoleReceiver, transport.Failed)
	if !errors.Is(e.Err, transport.ErrGroupLimit) || !errors.Is(e.Err, syscall.EINVAL) {
		t.Errorf("Join: error %v, want %v and %v", e.Err, transport.ErrGroupLimit, syscall.EINVAL)
	}
	s3, err := n.NewSender(3)
	if err != nil {
		t.Fatal(err)
	}
	e = r.event(n, 3, transport.RoleSender, transport.Failed)
	if !errors.Is(e.Err, transport.ErrGroupLimit) {
		t.Errorf("NewSender: error %v, want %v", e.Err, transport.ErrGroupLimit)
	}
	if _, err := s3.Send(one("x")); !errors.Is(err, transport.ErrGroupLimit) {
		t.Errorf("Send to a group that could not be joined: error %v, want %v", err, transport.ErrGroupLimit)
	}
	if st := n.Stats(); st.JoinsFailed != 2 || st.SendOnlyRefused != 0 {
		t.Errorf("statistics %+v, want 2 failed joins and no refused send-only join", st)
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

// A group beyond the device's limit on attachments is refused. Other groups are not affected.
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
			t.Errorf("Join: error %v, want %v and %v", e.Err, transport.ErrGroupLimit, syscall.ENOMEM)
		}
		r.sender(n, 2) // a sender needs no attachment
		r.send(r.sender(pub, 1), "after the refusal")
		r.want(n, 1, "after the refusal")
		if err := n.Leave(0); err != nil {
			t.Fatal(err)
		}
		r.event(n, 0, transport.RoleReceiver, transport.Left)
		r.join(n, 2)
	})
}

// A first join fails after some attempts if the subnet manager does not answer, but succeeds if it answers in time.
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
		t.Errorf("Join: error %v, want %v alone", e.Err, syscall.ETIMEDOUT)
	}
	if d := r.f.Now() - start; d < 9*time.Second || d > 10*time.Second {
		t.Errorf("failed after %v, want three times the kernel's 3 s", d)
	}
	if err := n.Join(0); err != nil {
		t.Fatal(err)
	}
	r.quiet(4 * time.Second)
	r.f.SetSM(fabric.SM{})
	r.event(n, 0, transport.RoleReceiver, transport.Joined)
}

// On InfiniBand, IPoIB must be up; otherwise the error says so.
func TestIPoIBDown(t *testing.T) {
	r := newRig(t, fabric.Config{})
	n := r.node(ud.Config{})
	n.host.Port(0, 1).SetIPoIB(false)
	if err := n.Join(0); err != nil {
		t.Fatal(err)
	}
	e := r.event(n, 0, transport.RoleReceiver, transport.Failed)
	if !errors.Is(e.Err, syscall.EADDRNOTAVAIL) || !strings.Contains(e.Err.Error(), "IPoIB") {
		t.Errorf("Join: error %v, want %v with advice on IPoIB", e.Err, syscall.EADDRNOTAVAIL)
	}
}

// After Join, Leave and senders in any order between two polls, the last request determines the state.
func TestLastRequestCounts(t *testing.T) {
	r := newRig(t, fabric.Config{})
	n, pub := r.node(ud.Config{}), r.node(ud.Config{})
	s := r.sender(pub, 0)
	n.Join(0)
	n.Leave(0)
	n.Join(0)
	r.event(n, 0, transport.RoleReceiver, transport.Left) // for the cancelled join
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
		t.Errorf("events %+v, want none", n.events)
	}
	if m := r.f.Members(rdma.MGIDForIB(n.GroupAddr(0), rdma.PortSpaceUDP, rdma.DefaultScope, rdma.DefaultPKey)); len(m) != 1 {
		t.Errorf("members of the left group: %v, want 1", m)
	}
}

// A new sender does not return the error of an earlier sender's failed join: until its own join has ended it returns
// ErrNotReady.
func TestFailureOfEarlierSender(t *testing.T) {
	for _, polled := range []bool{false, true} {
		r := newRig(t, fabric.Config{SM: fabric.SM{MLIDs: 1}}) // IPoIB uses the only multicast LID
		n := r.node(ud.Config{})
		early, err := n.NewSender(0)
		if err != nil {
			t.Fatal(err)
		}
		r.event(n, 0, transport.RoleSender, transport.Failed)
		if _, err := early.Send(one("x")); !errors.Is(err, transport.ErrGroupLimit) {
			t.Errorf("Send after the join has failed: error %v, want %v", err, transport.ErrGroupLimit)
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
			t.Errorf("polled %v: Send before the group is joined: error %v, want %v", polled, err, transport.ErrNotReady)
		}
		r.event(n, 0, transport.RoleSender, transport.Joined)
		r.send(late, "x")
	}
}
