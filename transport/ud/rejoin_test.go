package ud_test

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/rdma/fabric"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/ud"
)

// If a lost group cannot be joined again because all MLIDs are in use, this is reported once with the reason, retried,
// and counted.
func TestRejoinRefused(t *testing.T) {
	for _, role := range []transport.Role{transport.RoleReceiver, transport.RoleSender} {
		t.Run(role.String(), func(t *testing.T) {
			r := newRig(t, fabric.Config{SM: fabric.SM{MLIDs: 1 + 1}}) // one is used by IPoIB
			n, other := r.node(ud.Config{}), r.node(ud.Config{})
			if role == transport.RoleReceiver {
				r.join(n, 0)
			} else {
				r.sender(n, 0)
			}
			n.host.Port(0, 1).SetUp(false)
			if e := r.event(n, 0, role, transport.Lost); !errors.Is(e.Err, syscall.ENETRESET) {
				t.Errorf("event of a loss has error %v, want %v", e.Err, syscall.ENETRESET)
			}
			r.join(other, 1)
			n.host.Port(0, 1).SetUp(true)
			e := r.event(n, 0, role, transport.Lost)
			if errors.Is(e.Err, syscall.ETIMEDOUT) { // from a request while the port was down
				e = r.event(n, 0, role, transport.Lost)
			}
			if !errors.Is(e.Err, transport.ErrGroupLimit) || !errors.Is(e.Err, syscall.EINVAL) {
				t.Errorf("event of a refusal has error %v, want %v and %v", e.Err, transport.ErrGroupLimit, syscall.EINVAL)
			}
			before := n.Stats().JoinsFailed
			r.quiet(10 * time.Second)
			if len(n.events) > 0 {
				t.Errorf("events although nothing changed: %+v, want none", n.events)
			}
			if st := n.Stats(); before == 0 || st.JoinsFailed < before+5 || st.MembershipsLost != 1 {
				t.Errorf("after 10 s of refusals: %+v; before, %d joins had failed", st, before)
			}
			if err := other.Leave(1); err != nil {
				t.Fatal(err)
			}
			r.event(n, 0, role, transport.Joined)
			n.host.Port(0, 1).Reregister()
			if e := r.event(n, 0, role, transport.Lost); !errors.Is(e.Err, syscall.ENETRESET) {
				t.Errorf("event of a second loss has error %v, want %v", e.Err, syscall.ENETRESET)
			}
			r.event(n, 0, role, transport.Joined)
		})
	}
}

// stormRig makes hosts that are members of all groups, and clears the subnet administrator's record of requests.
func stormRig(t *testing.T, hosts, groups int) (*rig, []*node) {
	r := newRig(t, fabric.Config{})
	var nodes []*node
	for range hosts {
		n := r.node(ud.Config{Groups: groups, ReceiveQueue: 16})
		for g := range groups {
			if err := n.Join(g); err != nil {
				t.Fatal(err)
			}
		}
		nodes = append(nodes, n)
	}
	r.members(nodes, hosts*groups)
	r.f.Trace()
	return r, nodes
}

// members waits until the events add up to want memberships.
func (r *rig) members(nodes []*node, want int) {
	r.t.Helper()
	has := make(map[*node]map[int]bool)
	for _, n := range nodes {
		has[n] = make(map[int]bool)
	}
	r.until("all are members", func() bool {
		count := 0
		for _, n := range nodes {
			for _, e := range n.events {
				has[n][e.Group] = e.State == transport.Joined
			}
			n.events = nil
			for _, in := range has[n] {
				if in {
					count++
				}
			}
		}
		return count == want
	})
}

// Rejoins after a change of the subnet manager are spread over time.
func TestRejoinsAreSpread(t *testing.T) {
	const hosts, groups = 4, 64
	r, nodes := stormRig(t, hosts, groups)
	r.f.RestartSM()
	r.quiet(tick) // the losses are reported
	for _, n := range nodes {
		n.events = nil
	}
	r.members(nodes, hosts*groups)
	const window = 10 * time.Millisecond
	var at []time.Duration
	maximum := 0
	for _, rec := range r.f.Trace() {
		if rec.Kind != fabric.SASet {
			continue
		}
		at = append(at, rec.At)
		for at[0] < rec.At-window {
			at = at[1:]
		}
		maximum = max(maximum, len(at))
	}
	if maximum == 0 || maximum > hosts*groups/4 {
		t.Errorf("%d of %d requests within %v, want some, but at most a quarter", maximum, hosts*groups, window)
	}
}

// A subnet manager that keeps asking for reregistration is sent requests at increasing intervals. A membership that has
// lasted is joined again without a delay.
func TestFlapsAreDamped(t *testing.T) {
	const groups, flaps = 64, 200
	r, nodes := stormRig(t, 1, groups)
	sets := func() int {
		n := 0
		for _, rec := range r.f.Trace() {
			if rec.Kind == fabric.SASet {
				n++
			}
		}
		return n
	}
	start := r.f.Now()
	for range flaps {
		nodes[0].host.Port(0, 1).Reregister()
		r.quiet(50 * time.Millisecond)
	}
	// The delays double from 10 ms to 1 s, so that there are 8 within two seconds.
	limit := groups * (8 + int((r.f.Now()-start)/(time.Second/2)))
	if n := sets(); n < groups || n > limit {
		t.Errorf("%d requests for %d groups in %v of flaps, want at most %d", n, groups, r.f.Now()-start, limit)
	}
	r.quiet(5 * time.Second) // all are members for some time
	nodes[0].events = nil
	sets()
	nodes[0].host.Port(0, 1).Reregister()
	r.quiet(tick)
	nodes[0].events = nil
	start = r.f.Now()
	r.members(nodes, groups)
	if d := r.f.Now() - start; d > groups*2*time.Millisecond+10*time.Millisecond {
		t.Errorf("joined again after %v, although the memberships had lasted", d)
	}
}
