package rdmatest

import (
	"errors"
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
)

var addressStatements = []Statement{
	{22, "0.x.y.z is EINVAL on RoCE", RoCE, 0, "kernel cma.c cma_zero_addr", func(t *T) {
		t.open(Options{Hosts: 1})
		n := t.node(0)
		for _, a := range []string{"0.0.0.0", "0.1.2.3"} {
			t.wantErrno("join of "+a, n.id.JoinMulticast(addr(a), nil), syscall.EINVAL)
		}
	}},
	{23, "IPv6 group on RoCEv2 is errno 524 and ErrNotSupported", RoCE, 0, "kernel cma.c cma_iboe_join_multicast", func(t *T) {
		t.open(Options{Hosts: 1})
		err := t.node(0).id.JoinMulticast(addr("ff15::1234"), nil)
		t.wantErrno("join", err, 524)
		if !errors.Is(err, rdma.ErrNotSupported) {
			t.Errorf("%v does not match ErrNotSupported", err)
		}
	}},
	{24, "AF_IB group on RoCEv2 is errno 524", RoCE, 0, "kernel cma.c cma_iboe_join_multicast", func(t *T) {
		t.open(Options{Hosts: 1})
		n := t.node(0)
		t.wantErrno("join", n.id.JoinMulticast(rdma.IBAddr(rdma.GID{0: 0xff, 15: 1}), nil), 524)
	}},
	{25, "a unicast address is EINVAL immediately, with a QP", RoCE, 0, "kernel verbs.c ib_attach_mcast, which reports it by an event", func(t *T) {
		t.open(Options{Hosts: 1})
		n := t.node(0)
		t.wantErrno("join", n.id.JoinMulticast(addr("10.1.2.3"), nil), syscall.EINVAL)
		n.noEvent()
	}},
	{26, "a unicast address is EINVAL immediately, without a QP and send-only", RoCE, 0, "", func(t *T) {
		t.open(Options{Hosts: 1})
		n := t.node(0, nodeConfig{noQP: true})
		attr := rdma.JoinAttr{CompMask: rdma.JoinMaskAddress | rdma.JoinMaskFlags, Addr: addr("10.1.2.3")}
		for _, attr.Flags = range []rdma.JoinFlags{rdma.JoinFullMember, rdma.JoinSendOnlyFullMember} {
			t.wantErrno("join", n.id.JoinMulticastEx(attr, nil), syscall.EINVAL)
		}
		n.noEvent()
	}},
	{27, "interface MTU below 352 is EINVAL", RoCE, 0, "kernel ib_addr.h iboe_get_mtu", func(t *T) {
		net := t.open(Options{Hosts: 1})
		t.can(net.SetNetDevMTU != nil, "change the interface's MTU")
		n := t.node(0)
		net.SetNetDevMTU(0, 351)
		t.wantErrno("join", n.id.JoinMulticast(group(2, 27), nil), syscall.EINVAL)
		net.SetNetDevMTU(0, 352)
		n.join(group(2, 27))
	}},
	{28, "without the IPoIB broadcast group a join is EADDRNOTAVAIL immediately", IB, 0, "kernel cma.c cma_join_ib_multicast", func(t *T) {
		net := t.open(Options{Hosts: 1})
		t.can(net.SetIPoIB != nil, "take IPoIB down")
		n := t.node(0)
		net.SetIPoIB(0, false)
		t.wantErrno("join", n.id.JoinMulticast(group(2, 28), nil), syscall.EADDRNOTAVAIL)
		n.noEvent()
		net.SetIPoIB(0, true)
		n.join(group(2, 28))
	}},
	{29, "for 0.0.0.0 the SA chooses an MGID", IB, 0, "kernel cma.c cma_set_mgid; OpenSM build_new_mgid", func(t *T) {
		t.open(Options{Hosts: 1})
		n := t.node(0)
		g := n.join(addr("0.0.0.0")).UD.AHAttr.GRH.DGID
		if g[0] != 0xff || g[1]&0xf0 != 0x10 || g[2] != 0xa0 || g[3] != 0x1b {
			t.Errorf("MGID %v is not ff1x:a01b:...", g)
		}
		if g2 := t.node(0).join(addr("0.0.0.0")).UD.AHAttr.GRH.DGID; g2 == g {
			t.Errorf("two groups have the MGID %v", g)
		}
	}},
	{30, "ff12:a01b:... is used unchanged", IB, 0, "kernel cma.c cma_set_mgid", func(t *T) {
		t.open(Options{Hosts: 2})
		a, b := t.node(0), t.node(1)
		ea := a.join(addr("0.0.0.0"))
		mgid := ea.UD.AHAttr.GRH.DGID
		eb := b.join(rdma.IPAddr(mgid.IP()))
		if eb.UD.AHAttr.GRH.DGID != mgid || eb.UD.AHAttr.DLID != ea.UD.AHAttr.DLID {
			t.Fatalf("joined %+v, want %+v", eb.UD.AHAttr, ea.UD.AHAttr)
		}
		a.send(a.ah(ea), "to the chosen group")
		b.expect("to the chosen group")
	}},
}

// mgidStatement checks the MGIDs of joins.
func mgidStatement(o Options, ps rdma.PortSpace, joins map[string]string) func(t *T) {
	return func(t *T) {
		o.Hosts = 1
		t.open(o)
		for a, want := range joins {
			ev := t.node(0, nodeConfig{ps: ps, noQP: true}).join(addr(a))
			if got := ev.UD.AHAttr.GRH.DGID.String(); got != want {
				t.Errorf("join of %s has MGID %s, want %s", a, got, want)
			}
		}
	}
}

var mgidStatements = []Statement{
	{31, "239.1.2.3 on PS_UDP is ff12:4001:ffff::f01:203", IB, 0, "kernel ip.h ip_ib_mc_map",
		mgidStatement(Options{}, rdma.PortSpaceUDP, map[string]string{"239.1.2.3": "ff12:4001:ffff::f01:203", "224.0.0.1": "ff12:4001:ffff::1"})},
	{32, "239.1.2.3 on PS_IPOIB is ff12:401b:ffff::f01:203", IB, 0, "kernel ip.h ip_ib_mc_map",
		mgidStatement(Options{}, rdma.PortSpaceIPoIB, map[string]string{"239.1.2.3": "ff12:401b:ffff::f01:203"})},
	{33, "ff15::1234 and ff05::1234 are ff12:6001:ffff::1234", IB, 0, "kernel if_inet6.h ipv6_ib_mc_map",
		mgidStatement(Options{}, rdma.PortSpaceUDP, map[string]string{"ff15::1234": "ff12:6001:ffff::1234", "ff05::1234": "ff12:6001:ffff::1234"})},
	{34, "the P_Key is in bytes 4 and 5", IB, 0, "kernel ip.h ip_ib_mc_map",
		mgidStatement(Options{PKey: 0x8001}, rdma.PortSpaceUDP, map[string]string{"239.1.2.3": "ff12:4001:8001::f01:203"})},
	{35, "the scope is that of IPoIB", IB, 0, "kernel ip.h ip_ib_mc_map",
		mgidStatement(Options{Scope: 5}, rdma.PortSpaceUDP, map[string]string{"239.1.2.3": "ff15:4001:ffff::f01:203"})},
	{36, "239.1.2.3 on RoCEv2 is ::ffff:239.1.2.3, MAC 01:00:5e:01:02:03", RoCE, 0, "kernel verbs.c ib_resolve_eth_dmac", func(t *T) {
		mgidStatement(Options{}, rdma.PortSpaceUDP, map[string]string{"239.1.2.3": "::ffff:239.1.2.3"})(t)
		mac, ok := rdma.GIDFromIP(addr("239.1.2.3").IP).MulticastMAC()
		if !ok || mac != [6]byte{1, 0, 0x5e, 1, 2, 3} {
			t.Errorf("MAC %x, %v, want 01005e010203", mac, ok)
		}
	}},
	{37, "groups that share a MAC are distinct", RoCE, 0, "kernel verbs.c; rxe lookup by IP", func(t *T) {
		t.open(Options{Hosts: 3})
		low, high, from := t.node(0), t.node(1), t.node(2)
		low.join(addr("239.1.2.3"))
		high.join(addr("239.129.2.3"))
		from.send(from.ah(from.joinAs(addr("239.129.2.3"), rdma.JoinSendOnlyFullMember)), "to the high one")
		high.expect("to the high one")
		low.receive(0)
	}},
	{38, "ff15::1234 has MAC 33:33:00:00:12:34", both, Wire, "kernel if_inet6.h", func(t *T) {
		mac, ok := rdma.GIDFromIP(addr("ff15::1234").IP).MulticastMAC()
		if !ok || mac != [6]byte{0x33, 0x33, 0, 0, 0x12, 0x34} {
			t.Errorf("MAC %x, %v, want 333300001234", mac, ok)
		}
	}},
}
