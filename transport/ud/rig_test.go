package ud_test

import (
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/rdma/fabric"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/ud"
)

// rig is a simulated subnet with transports: everything happens in virtual time and in this goroutine.
type rig struct {
	t   *testing.T
	f   *fabric.Fabric
	all []*node
}

// node is a transport that the test polls.
type node struct {
	*ud.Transport
	t      *testing.T
	host   *fabric.Host
	batch  *transport.Batch
	got    []string
	groups []int // the groups of the packets in got
	events []transport.Event
	end    error // the last error of Poll
	peer   transport.Peer
	retain bool // keep the sender of each packet as peer
}

func newRig(t *testing.T, cfg fabric.Config) *rig {
	t.Helper()
	testenv.OneGoroutine(t)
	cfg.Latency, cfg.SM.ResponseDelay = time.Microsecond, 100*time.Microsecond
	r := &rig{t: t, f: fabric.New(cfg)}
	t.Cleanup(func() { r.f.Close() })
	return r
}

// node opens a transport on the host in cfg, or on a new one.
func (r *rig) node(cfg ud.Config) *node {
	r.t.Helper()
	if cfg.Provider == nil {
		cfg.Provider = r.f.AddHost(fabric.HostConfig{})
	}
	host, _ := cfg.Provider.(*fabric.Host)
	if s, ok := cfg.Provider.(*spy); ok {
		host = s.Host
	}
	if cfg.Clock == nil {
		cfg.Clock = r.f.Now
	}
	tr, err := ud.Open(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	n := &node{Transport: tr, t: r.t, host: host, batch: transport.NewBatch(64)}
	r.all = append(r.all, n)
	r.t.Cleanup(func() {
		n.Close()
		r.until("the transport ends", func() bool { return n.end != nil })
	})
	return n
}

func (n *node) poll() {
	if n.end != nil {
		return
	}
	if n.end = n.Poll(n.batch); n.end != nil {
		return
	}
	n.events = append(n.events, n.batch.Events...)
	for i := range n.batch.Trains {
		tr := &n.batch.Trains[i]
		for j := range tr.Count() {
			n.got = append(n.got, string(tr.Packet(j)))
			n.groups = append(n.groups, tr.Group)
		}
		if n.retain {
			p, err := n.Retain(tr.From)
			if err != nil {
				n.t.Fatal(err)
			}
			n.peer = p
		}
		n.Release(tr)
	}
}

// tick is one step of virtual time.
const tick = 50 * time.Microsecond

// until polls all transports and advances time until cond returns true.
func (r *rig) until(what string, cond func() bool) {
	r.t.Helper()
	for limit := r.f.Now() + time.Minute; !cond(); {
		for _, n := range r.all {
			n.poll()
		}
		r.f.AdvanceTo(r.f.Now() + tick)
		if r.f.Now() > limit {
			r.t.Fatalf("did not happen within a minute of virtual time: %s", what)
		}
	}
}

// quiet polls all transports and advances time by d.
func (r *rig) quiet(d time.Duration) {
	end := r.f.Now() + d
	r.until("", func() bool { return r.f.Now() >= end })
}

// event waits for the next event of the node, and checks its values.
func (r *rig) event(n *node, group int, role transport.Role, state transport.Membership) transport.Event {
	r.t.Helper()
	r.until(fmt.Sprintf("group %d as %v is %v; events are %+v", group, role, state, n.events), func() bool { return len(n.events) > 0 })
	e := n.events[0]
	n.events = n.events[1:]
	if e.Group != group || e.Role != role || e.State != state {
		r.t.Fatalf("event %+v (%v), want group %d as %v %v", e, e.Err, group, role, state)
	}
	return e
}

func (r *rig) join(n *node, group int) {
	r.t.Helper()
	if err := n.Join(group); err != nil {
		r.t.Fatal(err)
	}
	r.event(n, group, transport.RoleReceiver, transport.Joined)
}

func (r *rig) sender(n *node, group int) transport.Sender {
	r.t.Helper()
	s, err := n.NewSender(group)
	if err != nil {
		r.t.Fatal(err)
	}
	r.event(n, group, transport.RoleSender, transport.Joined)
	return s
}

func one(text string) *transport.Outbound {
	return &transport.Outbound{Data: []byte(text), Stride: len(text), Count: 1, Lens: []uint16{uint16(len(text))}}
}

func (r *rig) send(s transport.Sender, text string) {
	r.t.Helper()
	if n, err := s.Send(one(text)); n != 1 {
		r.t.Fatalf("Send of %q: %d packets, error %v, want 1", text, n, err)
	}
}

// want waits for the next packet, and checks it.
func (r *rig) want(n *node, group int, text string) {
	r.t.Helper()
	r.until(fmt.Sprintf("%q arrives", text), func() bool { return len(n.got) > 0 })
	if n.got[0] != text || n.groups[0] != group {
		r.t.Fatalf("got %q in group %d, want %q in %d", n.got[0], n.groups[0], text, group)
	}
	n.got, n.groups = n.got[1:], n.groups[1:]
}

// close closes a transport and waits until it has ended.
func (r *rig) close(n *node) {
	r.t.Helper()
	n.Close()
	r.until("the transport ends", func() bool { return n.end != nil })
	if !errors.Is(n.end, net.ErrClosed) || n.end.Error() != "ud: "+net.ErrClosed.Error() {
		r.t.Fatalf("transport ended with %v, want %v", n.end, net.ErrClosed)
	}
}

// flavors runs a test on both kinds of subnet.
func flavors(t *testing.T, f func(t *testing.T, flavor fabric.Flavor)) {
	for _, flavor := range []fabric.Flavor{fabric.InfiniBand, fabric.RoCE} {
		t.Run(flavor.String(), func(t *testing.T) { f(t, flavor) })
	}
}
