package rdmatest

import (
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
)

// Addresses that are invalid for the connection manager.
var noAddrs = []rdma.Addr{{}, {Family: rdma.FamilyUnix}, {Family: 99}, {Family: rdma.FamilyIPv4},
	{Family: rdma.FamilyIPv6, IP: group(0, 1).IP}}

var argumentStatements = []Statement{
	{1, "JoinMulticastEx with mask 0 is EINVAL", both, 0, "librdmacm cma.c rdma_join_multicast_ex", joinEx(0, 0, syscall.EINVAL)},
	{2, "unknown mask bits are ENOTSUP before anything else", both, 0, "librdmacm cma.c", func(t *T) {
		t.open(Options{Hosts: 1})
		for _, mask := range []rdma.JoinMask{4, 7, 0x80000000} {
			// Everything else is wrong, too: no address, bad flags, unbound.
			err := t.node(0, nodeConfig{noBind: true}).id.JoinMulticastEx(rdma.JoinAttr{CompMask: mask, Flags: 9}, nil)
			t.wantErrno("join", err, syscall.ENOTSUP)
		}
	}},
	{3, "mask with address only is EINVAL", both, 0, "librdmacm cma.c", joinEx(rdma.JoinMaskAddress, 0, syscall.EINVAL)},
	{4, "mask with flags only is EINVAL", both, 0, "librdmacm cma.c", joinEx(rdma.JoinMaskFlags, 0, syscall.EINVAL)},
	{5, "unknown join flags are EINVAL", both, 0, "librdmacm cma.c", func(t *T) {
		t.open(Options{Hosts: 1})
		n := t.node(0)
		for _, flags := range []rdma.JoinFlags{2, 0xffffffff} {
			t.wantErrno("join", n.id.JoinMulticastEx(rdma.JoinAttr{CompMask: 3, Flags: flags, Addr: group(0, 5)}, nil), syscall.EINVAL)
		}
	}},
	{6, "no address is EINVAL", both, 0, "librdmacm cma.c ucma_addrlen", func(t *T) {
		t.open(Options{Hosts: 1})
		err := t.node(0).id.JoinMulticastEx(rdma.JoinAttr{CompMask: 3}, nil)
		t.wantErrno("join", err, syscall.EINVAL)
	}},
	{7, "families other than INET, INET6, IB are EINVAL in Join, JoinEx and Leave", both, 0, "librdmacm cma.c", func(t *T) {
		t.open(Options{Hosts: 1})
		n := t.node(0)
		for _, a := range noAddrs {
			t.wantErrno("Join of "+a.String(), n.id.JoinMulticast(a, nil), syscall.EINVAL)
			t.wantErrno("JoinEx of "+a.String(), n.id.JoinMulticastEx(rdma.JoinAttr{CompMask: 3, Addr: a}, nil), syscall.EINVAL)
			_, err := n.id.BeginLeave(a)
			t.wantErrno("Leave of "+a.String(), err, syscall.EINVAL)
		}
	}},
	{8, "a refused join leaves no membership", both, 0, "librdmacm cma.c rdma_join_multicast2", func(t *T) {
		t.open(Options{Hosts: 1})
		n := t.node(0, nodeConfig{noBind: true})
		t.wantErrno("join", n.id.JoinMulticast(group(0, 8), nil), syscall.EINVAL)
		_, err := n.id.BeginLeave(group(0, 8))
		t.wantErrno("leave", err, syscall.EADDRNOTAVAIL)
	}},
	{9, "JoinMulticast is JoinMulticastEx as full member", both, 0, "librdmacm cma.c rdma_join_multicast", func(t *T) {
		t.open(Options{Hosts: 2})
		a, b := t.node(0), t.node(1)
		t.must("JoinMulticast", a.id.JoinMulticast(group(0, 9), nil))
		a.joined = append(a.joined, group(0, 9))
		ea, eb := a.event(), b.join(group(0, 9))
		a.ack()
		if ea.Type != rdma.EventMulticastJoin || ea.UD.AHAttr.GRH.DGID != eb.UD.AHAttr.GRH.DGID ||
			ea.UD.QKey != eb.UD.QKey || ea.UD.AHAttr.DLID != eb.UD.AHAttr.DLID {
			t.Fatalf("events differ: %+v and %+v", ea, eb)
		}
		t.quiet()
		b.send(b.ah(eb), "to a full member")
		a.expect("to a full member")
	}},
	{10, "constants have rdma_cma.h's values", both, 0, "rdma_cma.h", func(t *T) {
		got := []int{int(rdma.JoinMaskAddress), int(rdma.JoinMaskFlags), int(rdma.JoinMaskReserved),
			int(rdma.JoinFullMember), int(rdma.JoinSendOnlyFullMember), int(rdma.JoinFlagsReserved),
			int(rdma.EventMulticastJoin), int(rdma.EventMulticastError), int(rdma.EventDeviceRemoval), int(rdma.EventAddrChange),
			int(rdma.UDPQKey), int(rdma.PortSpaceIPoIB), int(rdma.PortSpaceTCP), int(rdma.PortSpaceUDP), int(rdma.PortSpaceIB)}
		want := []int{1, 2, 4, 0, 1, 2, 12, 13, 11, 14, 0x01234567, 0x0002, 0x0106, 0x0111, 0x013F}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("constant %d is %#x, want %#x", i, got[i], want[i])
			}
		}
	}},
}

// joinEx is a statement about the mask and flags of an otherwise valid join.
func joinEx(mask rdma.JoinMask, flags rdma.JoinFlags, want syscall.Errno) func(t *T) {
	return func(t *T) {
		t.open(Options{Hosts: 1})
		n := t.node(0)
		err := n.id.JoinMulticastEx(rdma.JoinAttr{CompMask: mask, Flags: flags, Addr: group(0, 1)}, nil)
		t.wantErrno("join", err, want)
		n.noEvent()
	}
}
