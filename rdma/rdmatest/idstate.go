package rdmatest

import (
	"net/netip"
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
)

var stateStatements = []Statement{
	{11, "join on an unbound id is EINVAL", both, 0, "kernel ucma.c ucma_get_ctx_dev", func(t *T) {
		t.open(Options{Hosts: 1})
		n := t.node(0, nodeConfig{noBind: true})
		t.wantErrno("join", n.id.JoinMulticast(group(1, 11), nil), syscall.EINVAL)
	}},
	{12, "join on an id bound to the wildcard address is EINVAL", both, 0, "kernel ucma.c ucma_get_ctx_dev", func(t *T) {
		t.open(Options{Hosts: 1})
		n := t.node(0, nodeConfig{noBind: true})
		t.must("Bind", n.id.Bind(addr("0.0.0.0")))
		t.wantErrno("join", n.id.JoinMulticast(group(1, 12), nil), syscall.EINVAL)
	}},
	{13, "join after Bind, without ResolveAddr, succeeds", both, 0, "kernel cma.c rdma_join_multicast", func(t *T) {
		t.open(Options{Hosts: 1})
		t.node(0).join(group(1, 13))
	}},
	{14, "join after ADDR_RESOLVED succeeds", both, 0, "kernel cma.c rdma_join_multicast", func(t *T) {
		net := t.open(Options{Hosts: 1})
		n := t.node(0, nodeConfig{noBind: true})
		t.must("ResolveAddr", n.id.ResolveAddr(net.Hosts[0].Addr, group(1, 14), rdma.ResolveTimeout))
		n.wantType(rdma.EventAddrResolved)
		n.join(group(1, 14))
	}},
	{15, "join while ResolveAddr is in flight is EINVAL", both, 0, "kernel cma.c rdma_join_multicast", func(t *T) {
		net := t.open(Options{Hosts: 1})
		for range 20 {
			n := t.node(0, nodeConfig{noBind: true})
			t.must("ResolveAddr", n.id.ResolveAddr(net.Hosts[0].Addr, group(1, 15), rdma.ResolveTimeout))
			err := n.id.JoinMulticast(group(1, 15), nil)
			if err != nil {
				t.wantErrno("join", err, syscall.EINVAL)
				n.wantType(rdma.EventAddrResolved)
				n.join(group(1, 15))
				return
			}
			n.joined = append(n.joined, group(1, 15))
			// If the resolution had already ended, the event exists.
			ev, err := n.ch.TryGetEvent()
			if err != nil || ev.Type != rdma.EventAddrResolved {
				t.Fatalf("join was accepted while the address was not resolved: %v", err)
			}
			n.unack = append(n.unack, ev)
		}
		t.notApplicable("the resolution ends before a join can be tried")
	}},
	{16, "join after ResolveRoute is EINVAL", both, 0, "kernel cma.c rdma_join_multicast", func(t *T) {
		net := t.open(Options{Hosts: 1})
		n := t.node(0, nodeConfig{noBind: true})
		t.must("ResolveAddr", n.id.ResolveAddr(net.Hosts[0].Addr, group(1, 16), rdma.ResolveTimeout))
		n.wantType(rdma.EventAddrResolved)
		t.must("ResolveRoute", n.id.ResolveRoute(rdma.ResolveTimeout))
		t.wantErrno("join in between", n.id.JoinMulticast(group(1, 16), nil), syscall.EINVAL)
		n.wantType(rdma.EventRouteResolved)
		t.wantErrno("join", n.id.JoinMulticast(group(1, 16), nil), syscall.EINVAL)
	}},
	{17, "join on a PS_TCP id is EINVAL", both, 0, "kernel cma.c rdma_join_multicast", func(t *T) {
		t.open(Options{Hosts: 1})
		n := t.node(0, nodeConfig{ps: rdma.PortSpaceTCP, noQP: true})
		t.wantErrno("join", n.id.JoinMulticast(group(1, 17), nil), syscall.EINVAL)
	}},
	{18, "join on an iWARP device is ENOSYS", both, Kernel, "kernel cma.c rdma_join_multicast", func(t *T) {
		t.notApplicable("no iWARP device")
	}},
	{19, "bind of a PS_IPOIB id on RoCE is EINVAL", RoCE, 0, "kernel cma.c cma_acquire_dev_by_src_ip", func(t *T) {
		net := t.open(Options{Hosts: 1})
		n := t.bare(0, rdma.PortSpaceIPoIB)
		t.wantErrno("bind", n.id.Bind(net.Hosts[0].Addr), syscall.EINVAL)
	}},
	{20, "a second Bind is EINVAL, as is an invalid family", both, 0, "kernel cma.c rdma_bind_addr_dst", func(t *T) {
		net := t.open(Options{Hosts: 1})
		n := t.bare(0, rdma.PortSpaceUDP)
		for _, a := range noAddrs {
			t.wantErrno("bind to "+a.String(), n.id.Bind(a), syscall.EINVAL)
		}
		t.must("bind", n.id.Bind(net.Hosts[0].Addr))
		t.wantErrno("second bind", n.id.Bind(net.Hosts[0].Addr), syscall.EINVAL)
	}},
	{21, "bind to an address of no RDMA device is ENODEV", both, 0, "kernel cma.c cma_acquire_dev_by_src_ip", func(t *T) {
		t.open(Options{Hosts: 1})
		n := t.bare(0, rdma.PortSpaceUDP)
		t.wantErrno("bind", n.id.Bind(rdma.IPAddr(netip.MustParseAddr("192.0.2.1"))), syscall.ENODEV)
	}},
}

// wantType retrieves an event and checks its type.
func (n *node) wantType(want rdma.EventType) *rdma.Event {
	n.t.Helper()
	ev := n.event()
	if ev.Type != want {
		n.t.Fatalf("event %v (%v), want %v", ev.Type, ev.Err(), want)
	}
	return ev
}
