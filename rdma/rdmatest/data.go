package rdmatest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
)

// dataStatements are about the contents of received datagrams and about drops.
var dataStatements = []Statement{
	{92, "byte_len is 40 plus the length, the payload is at offset 40", both, 0, "IBTA 11.4.2.1; rxe rxe_resp.c", func(t *T) {
		m, _, _ := oneMessage(t, group(92, 1), nil)
		if m.wc.ByteLen != uint32(40+len("hello")) || m.data != "hello" {
			t.Errorf(`byte_len %d, data %q, want 45, "hello"`, m.wc.ByteLen, m.data)
		}
	}},
	{93, "GRH area on RoCEv2/IPv4: bytes 20 to 39 are the IPv4 header", RoCE, 0, "rxe rxe_resp.c; ib_verbs.h rdma_network_hdr", func(t *T) {
		m, _, _ := oneMessage(t, group(93, 1), nil)
		src, _ := netip.AddrFromSlice(m.area[32:36])
		dst, _ := netip.AddrFromSlice(m.area[36:40])
		if m.area[20] != 0x45 || src != t.net.Hosts[1].Addr.IP || dst != group(93, 1).IP || m.area[28] == 0 {
			t.Errorf("area % x, want an IPv4 header from %v to %v with a TTL", m.area, t.net.Hosts[1].Addr.IP, group(93, 1).IP)
		}
		h, ok := rdma.ParseGRH(rdma.LinkLayerEthernet, m.area)
		if !ok || h.Src.IP() != src || h.Dst.IP() != dst {
			t.Errorf("parsed %+v, %v, want from %v to %v", h, ok, src, dst)
		}
	}},
	{94, "GRH on InfiniBand: SGID, DGID and next header", IB, 0, "IBTA 8.3", func(t *T) {
		m, ev, from := oneMessage(t, group(94, 1), nil)
		gids, err := from.dev.GIDs(from.id.Port())
		t.must("GIDs", err)
		if m.area[0]>>4 != 6 || m.area[6] != 0x1B || !bytes.Equal(m.area[8:24], gids[0].GID[:]) ||
			!bytes.Equal(m.area[24:40], ev.UD.AHAttr.GRH.DGID[:]) {
			t.Errorf("area % x, want an IPv6 header from %v to %v", m.area, gids[0].GID, ev.UD.AHAttr.GRH.DGID)
		}
		if length := binary.BigEndian.Uint16(m.area[4:]); length != 12+8+8+4 { // BTH, DETH, "hello" and pad, ICRC
			t.Errorf("payload length %d, want 32", length)
		}
	}},
	{95, "completion has the sender's QPN and the GRH flag", both, 0, "rxe rxe_resp.c", func(t *T) {
		m, _, from := oneMessage(t, group(95, 1), nil)
		if m.wc.SrcQPN != from.qp.QPN() || m.wc.Flags != rdma.WCGRH || m.wc.Opcode != rdma.WCRecv ||
			m.wc.QPN == from.qp.QPN() && from.host == 0 {
			t.Errorf("completion %+v, want a receive with GRH from QPN %v", m.wc, from.qp.QPN())
		}
	}},
	{96, "immediate data arrive with the sender's byte order", both, 0, "rxe rxe_resp.c", func(t *T) {
		imm := [4]byte{1, 2, 3, 4}
		m, _, _ := oneMessage(t, group(96, 1), func(wr *rdma.SendWR) { wr.Opcode, wr.Imm = rdma.OpSendWithImm, imm })
		if m.wc.Flags&rdma.WCWithImm == 0 || m.wc.Imm != imm {
			t.Errorf("completion %+v, want immediate data %v", m.wc, imm)
		}
	}},
	{97, "wrong Q_Key: dropped, and the QP stays usable", both, 0, "rxe rxe_recv.c check_keys", func(t *T) {
		dropped(t, group(97, 1), func(_ *node, wr *rdma.SendWR) { wr.QKey ^= 1 })
	}},
	{98, "wrong P_Key: dropped", both, 0, "rxe rxe_recv.c check_keys", func(t *T) {
		o := Options{Hosts: 2}
		const pkey, other = rdma.PKey(0x8001), rdma.PKey(0x8002)
		from0 := rdma.DefaultPKey // RoCE normally has only this partition
		if t.is(IB) {
			o.PKey, from0 = pkey, pkey
		}
		net := t.open(o)
		t.can(net.SetPKeys != nil, "change the P_Key table")
		to, from := t.node(0), t.node(1)
		to.join(group(98, 1))
		ah := from.ah(from.joinAs(group(98, 1), rdma.JoinSendOnlyFullMember))
		table, err := from.dev.PKeys(from.id.Port())
		t.must("PKeys", err)
		with := func(key rdma.PKey) []rdma.PKey {
			changed := append([]rdma.PKey(nil), table...)
			for i := range changed {
				if changed[i] == from0 {
					changed[i] = key
				}
			}
			return changed
		}
		net.SetPKeys(1, with(other)...)
		from.send(ah, "wrong partition")
		to.receive(0)
		net.SetPKeys(1, table...)
		from.send(ah, "right partition")
		to.expect("right partition")
		// Two limited members do not receive each other's packets.
		net.SetPKeys(0, with(from0.Base())...)
		net.SetPKeys(1, with(from0.Base())...)
		from.send(ah, "both limited")
		to.receive(0)
		net.SetPKeys(1, table...)
		from.send(ah, "one is full")
		to.expect("one is full")
	}},
	{99, "without a posted receive a message is dropped, later ones are not", both, 0, "rxe rxe_resp.c", func(t *T) {
		t.open(Options{Hosts: 2})
		to, from := t.node(0, nodeConfig{noRecv: true}), t.node(1)
		to.join(group(99, 1))
		ah := from.ah(from.joinAs(group(99, 1), rdma.JoinSendOnlyFullMember))
		from.send(ah, "lost")
		to.receive(0)
		to.post(2)
		from.send(ah, "kept")
		to.expect("kept")
	}},
	{101, "a message of no bytes is delivered with byte_len 40", both, 0, "rxe", func(t *T) {
		m, _, _ := oneMessage(t, group(101, 1), func(wr *rdma.SendWR) { wr.SG = nil })
		if m.wc.ByteLen != 40 || m.data != "" {
			t.Errorf("byte_len %d, want 40 without data", m.wc.ByteLen)
		}
	}},
	{102, "a message is dropped if the receive buffer is too small, and the QP stays usable", both, 0, "rxe rxe_resp.c", func(t *T) {
		t.open(Options{Hosts: 2})
		to, from := t.node(0, nodeConfig{noRecv: true}), t.node(1)
		to.join(group(102, 1))
		ah := from.ah(from.joinAs(group(102, 1), rdma.JoinSendOnlyFullMember))
		_, err := to.qp.PostRecv([]rdma.RecvWR{to.recvWR(40 + 4)})
		t.must("PostRecv", err)
		from.send(ah, "hello")
		to.receive(0)
		if len(to.bad) > 0 {
			t.Errorf("completions in error: %+v, want none", to.bad)
		}
		from.send(ah, "four")
		to.expect("four")
		to.post(1)
		from.send(ah, "hello")
		to.expect("hello")
	}},
	{103, "an attached sender with posted receives gets its own message once", both, 0, "manual of ibv_attach_mcast at rdmamojo", func(t *T) {
		t.open(Options{Hosts: 2})
		n, other := t.node(0), t.node(1)
		ev := n.join(group(103, 1))
		ah := n.ah(ev)
		other.join(group(103, 1))
		n.send(ah, "to all of us")
		if m := n.expect("to all of us"); m.wc.SrcQPN != n.qp.QPN() {
			t.Errorf("message from QPN %v, want %v", m.wc.SrcQPN, n.qp.QPN())
		}
		other.expect("to all of us")
		// A member without a receive does not.
		bare := t.node(0, nodeConfig{noRecv: true})
		ah = bare.ah(bare.join(group(103, 2)))
		bare.send(ah, "to no member")
		bare.receive(0)
		// Nor does a port without attached queue pairs, which still may send.
		t.node(0).joinAs(group(103, 1), rdma.JoinSendOnlyFullMember)
		t.must("leave", n.leave(group(103, 1)))
		n.post(1)
		n.send(n.ahOf(ev.UD.AHAttr), "to the others")
		other.expect("to the others")
		n.receive(0)
	}},
}

// oneMessage sends "hello" to a group, changed by edit, from host 1 to host 0.
func oneMessage(t *T, g rdma.Addr, edit func(*rdma.SendWR)) (message, *rdma.Event, *node) {
	t.Helper()
	t.open(Options{Hosts: 2})
	to, from := t.node(0), t.node(1)
	ev := to.join(g)
	wr := from.sendWR(from.ah(from.joinAs(g, rdma.JoinSendOnlyFullMember)), "hello")
	if edit != nil {
		edit(&wr)
	}
	from.sendOn(from.qp, wr)
	return to.receive(1)[0], ev, from
}

// dropped checks that a message changed by spoil is dropped, and that the next one is not.
func dropped(t *T, g rdma.Addr, spoil func(*node, *rdma.SendWR)) {
	t.Helper()
	t.open(Options{Hosts: 2})
	to, from := t.node(0), t.node(1)
	to.join(g)
	ah := from.ah(from.joinAs(g, rdma.JoinSendOnlyFullMember))
	wr := from.sendWR(ah, "bad")
	spoil(from, &wr)
	from.sendOn(from.qp, wr)
	to.receive(0)
	if len(to.bad) > 0 {
		t.Errorf("completions in error: %+v, want none", to.bad)
	}
	from.send(ah, "good")
	to.expect("good")
}

// wireStatements are about the bytes of packets, and only apply to a provider that makes packets itself. Target.Wire
// runs its tests.
var wireStatements = []Statement{
	wire(111, "packets A, B and C are encoded and decoded bit by bit"),
	wire(112, "the ICRC of a captured ConnectX-4 packet is right"),
	wire(113, "a flipped bit is detected, unless the field is masked"),
	wire(114, "port 4791, checksum 0, DF, destination QP ffffff, TVer 0, A 0"),
	wire(115, "other TVer or opcode is dropped"),
	wire(116, "payloads of 0 to 8 bytes: pad, zero, exact length"),
	wire(117, "PSN counts from sq_psn, modulo 2^24"),
	wire(118, "pads, M, identification and DF of peers are accepted"),
	wire(119, "groups that are not attached, or share the MAC, are dropped"),
	wire(120, "truncated packets are dropped"),
}

func wire(num int, text string) Statement {
	return Statement{num, text, both, Wire, "IBTA annex A17; rxe", func(t *T) {
		run := t.target.Wire[num]
		if run == nil {
			t.Fatalf("the target has no test for statement %d", num)
		}
		run(t.T)
	}}
}

// interopStatements need rdma-core's mckey on the other side.
var interopStatements = []Statement{
	interop(121, RoCE, "a waiting mckey receives from a Go sender and ends"),
	interop(122, RoCE, "mckey -s is received: 10 messages of 100 bytes, immediate data is the source QPN"),
	interop(123, RoCE, "mckey -s -o is received, too, without an IGMP report"),
	interop(124, IB, "mckey in both directions on an HCA with OpenSM"),
	{125, "the three multicast tests of rdma-core's test_rdmacm.py pass", both, 0, "rdma-core tests/test_rdmacm.py", testRDMACM},
}

func interop(num int, where Tags, text string) Statement {
	return Statement{num, text, where, Interop, "rdma-core mckey.c", func(t *T) {
		run := t.target.Interop[num]
		if run == nil {
			t.Fatalf("the target has no test for statement %d", num)
		}
		run(t.T)
	}}
}

// testRDMACM is a port of test_rdmacm_async_multicast_traffic,
// ..._ex_multicast_traffic and ..._ex_leave_multicast_traffic: bind, resolve
// the group, make the QP, join, ten messages of 1024 bytes, leave, no traffic.
func testRDMACM(t *T) {
	net := t.open(Options{Hosts: 2})
	for name, ex := range map[string]bool{"join": false, "join_ex": true} {
		mc := group(125, 1)
		if ex {
			mc = group(125, 2)
		}
		var pair [2]*node
		var ahs [2]rdma.AH
		for i := range pair {
			n := t.bare(i, rdma.PortSpaceUDP)
			t.must("bind", n.id.Bind(net.Hosts[i].Addr))
			t.must("resolve", n.id.ResolveAddr(net.Hosts[i].Addr, mc, rdma.ResolveTimeout))
			n.wantType(rdma.EventAddrResolved)
			n.ack()
			n.addQP(nodeConfig{})
			if ex {
				n.begin(mc, rdma.JoinFullMember, nil)
			} else {
				t.must("join", n.id.JoinMulticast(mc, nil))
				n.joined = append(n.joined, mc)
			}
			ahs[i] = n.ah(n.wantType(rdma.EventMulticastJoin))
			n.ack()
			pair[i] = n
		}
		t.quiet()
		server, client := pair[0], pair[1]
		for i := range 10 {
			data := fmt.Sprintf("%s %d %01024d", name, i, 0)[:1024]
			client.send(ahs[1], data)
			server.expect(data)
		}
		t.must("leave", server.leave(mc))
		client.send(ahs[1], "after the leave")
		server.receive(0)
		t.wantErrno("leave again", server.leave(mc), syscall.EADDRNOTAVAIL)
	}
}
