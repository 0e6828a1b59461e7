package fabric

import (
	"testing"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/internal/soft"
)

// request sends a request to the administrator as in a MAD. The connection manager makes few of these requests.
func (f *Fabric) request(p *Port, req soft.SARequest) soft.SAReply {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sa.handle(p, &req)
}

const createMask = soft.MCMGID | soft.MCPortGID | soft.MCJoinState | soft.MCQKey | soft.MCTClass | soft.MCPKey | soft.MCFlow | soft.MCSL

// In a join of an existing group all requested components must match the group. Others are ignored.
func TestGroupFields(t *testing.T) {
	const other = rdma.PKey(0x8002)
	f := New(Config{MTU: 2048})
	defer f.Close()
	newPeer(t, f.AddHost(HostConfig{}))
	port := f.hosts[0].Port(0, 1)
	port.SetPKeys(rdma.DefaultPKey, other)
	group := soft.MCMember{
		MGID: rdma.GID{0: 0xff, 1: 0x12, 15: 5}, PortGID: port.portGID(), PKey: rdma.DefaultPKey, JoinState: rdma.StateFullMember,
		QKey: 1, TClass: 2, SL: 3, Flow: 4, HopLimit: 5, MTU: 3, MTUSelector: 2, Rate: 3, RateSelector: 2,
	}
	const optional = soft.MCHopLimit | soft.MCMTU | soft.MCMTUSelector | soft.MCRate | soft.MCRateSelector
	if r := f.request(port, soft.SARequest{Mask: createMask | optional, Rec: group}); r.Status != soft.SAOk {
		t.Fatalf("creating the group has status %#x, want %#x", r.Status, soft.SAOk)
	}
	for name, c := range map[string]struct {
		edit func(*soft.MCMember)
		bits soft.MCMask
	}{
		"Q_Key":         {func(m *soft.MCMember) { m.QKey++ }, soft.MCQKey},
		"traffic class": {func(m *soft.MCMember) { m.TClass++ }, soft.MCTClass},
		"SL":            {func(m *soft.MCMember) { m.SL++ }, soft.MCSL},
		"flow label":    {func(m *soft.MCMember) { m.Flow++ }, soft.MCFlow},
		"hop limit":     {func(m *soft.MCMember) { m.HopLimit++ }, soft.MCHopLimit},
		"P_Key":         {func(m *soft.MCMember) { m.PKey = other }, soft.MCPKey},
		"exact MTU":     {func(m *soft.MCMember) { m.MTU++ }, soft.MCMTU | soft.MCMTUSelector},
		"larger MTU":    {func(m *soft.MCMember) { m.MTUSelector = 0 }, soft.MCMTU | soft.MCMTUSelector},
		"exact rate":    {func(m *soft.MCMember) { m.Rate++ }, soft.MCRate | soft.MCRateSelector},
	} {
		rec := group
		c.edit(&rec)
		if r := f.request(port, soft.SARequest{Mask: createMask | optional, Rec: rec}); r.Status != soft.SAReqInvalid {
			t.Errorf("another %s: status %#x, want %#x", name, r.Status, soft.SAReqInvalid)
		}
		if r := f.request(port, soft.SARequest{Mask: (createMask | optional) &^ c.bits, Rec: rec}); r.Status != soft.SAOk {
			t.Errorf("another %s that is not requested: status %#x", name, r.Status)
		}
		if bit := c.bits &^ (soft.MCMTU | soft.MCRate); bit != c.bits { // a selector needs its value and vice versa
			if r := f.request(port, soft.SARequest{Mask: (createMask | optional) &^ bit, Rec: rec}); r.Status != soft.SAOk {
				t.Errorf("another %s without its selector: status %#x, want %#x", name, r.Status, soft.SAOk)
			}
		}
	}
	for _, state := range []rdma.JoinState{0, 0x11} {
		rec := group
		rec.JoinState = state
		if r := f.request(port, soft.SARequest{Mask: createMask, Rec: rec}); r.Status != soft.SAReqInvalid {
			t.Errorf("JoinState %#x: status %#x, want %#x", state, r.Status, soft.SAReqInvalid)
		}
	}
}

// A new group has the requested values, and otherwise those of the port.
func TestNewGroupFields(t *testing.T) {
	f := New(Config{MTU: 2048})
	defer f.Close()
	newPeer(t, f.AddHost(HostConfig{RateGbps: 40}))
	port := f.hosts[0].Port(0, 1)
	port.hca.dev.UpdatePort(1, func(s *portState) { s.MTU = 1024 })
	n := byte(0)
	create := func(mask soft.MCMask, edit func(*soft.MCMember)) soft.SAReply {
		n++
		rec := soft.MCMember{
			MGID: rdma.GID{0: 0xff, 1: 0x1e, 15: n}, PortGID: port.portGID(), PKey: rdma.DefaultPKey, JoinState: rdma.StateFullMember,
			QKey: 1, MTU: 4, MTUSelector: 2, Rate: 2, RateSelector: 2, HopLimit: 99, Scope: 2,
		}
		edit(&rec)
		return f.request(port, soft.SARequest{Mask: createMask | mask, Rec: rec})
	}
	same := func(*soft.MCMember) {}
	const r40, r100 = 7, 16
	if r := create(0, same); r.Status != soft.SAOk || r.Rec.MTU != rdma.MTU(1024).Code() || r.Rec.Rate != r40 || r.Rec.HopLimit != 0 || r.Rec.Scope != 0xe {
		t.Errorf("no values requested: status %#x, %+v, want %#x, MTU 1024, rate %v, hop limit 0 and scope 0xe", r.Status, r.Rec, soft.SAOk, r40)
	}
	if r := create(soft.MCHopLimit|soft.MCRate|soft.MCRateSelector, same); r.Status != soft.SAOk || r.Rec.HopLimit != 99 || r.Rec.Rate != 2 {
		t.Errorf("hop limit and rate requested: status %#x, %+v, want %#x, hop limit 99 and rate 2", r.Status, r.Rec, soft.SAOk)
	}
	if r := create(soft.MCMTU|soft.MCMTUSelector, func(m *soft.MCMember) { m.MTU = rdma.MTU(512).Code() }); r.Status != soft.SAOk || r.Rec.MTU != rdma.MTU(512).Code() {
		t.Errorf("an MTU that the port supports: status %#x, %+v, want %#x and MTU 512", r.Status, r.Rec, soft.SAOk)
	}
	if r := create(soft.MCMTU|soft.MCMTUSelector, same); r.Status != soft.SAReqInvalid {
		t.Errorf("an MTU of 2048 on a port with 1024: status %#x, want %#x", r.Status, soft.SAReqInvalid)
	}
	if r := create(soft.MCRate|soft.MCRateSelector, func(m *soft.MCMember) { m.Rate = r100 }); r.Status != soft.SAReqInvalid {
		t.Errorf("100 Gbit/s on a port with 40: status %#x, want %#x", r.Status, soft.SAReqInvalid)
	}
	f.SetSM(SM{Override: func(g *Group) { g.MTU = 4096 }})
	if r := create(0, same); r.Status != soft.SAReqInvalid {
		t.Errorf("a subnet manager that chooses a larger MTU than the port's: status %#x, want %#x", r.Status, soft.SAReqInvalid)
	}
	// Refused requests use no MLID. The broadcast group has the first.
	f.SetSM(SM{})
	if r := create(0, same); r.Status != soft.SAOk || r.Rec.MLID != rdma.MLIDMin+4 {
		t.Errorf("status %#x, MLID %v, want %#x, %v", r.Status, r.Rec.MLID, soft.SAOk, rdma.MLIDMin+4)
	}
	// An MGID chosen by the administrator has the requested scope and the subnet's prefix.
	for _, want := range []string{"ff12:a01b:fe80::1", "ff15:a01b:fe80::2"} {
		r := create(soft.MCScope, func(m *soft.MCMember) {
			if m.MGID = (rdma.GID{}); want[3] == '5' {
				m.Scope = 5
			}
		})
		if g, _ := rdma.ParseGID(want); r.Status != soft.SAOk || r.Rec.MGID != g {
			t.Errorf("status %#x, MGID %v, want %v", r.Status, r.Rec.MGID, want)
		}
	}
	if r := create(0, func(m *soft.MCMember) { m.MGID = rdma.GID{}; m.Scope = 9 }); r.Rec.MGID[1] != 0x12 {
		t.Errorf("scope not requested: MGID %v", r.Rec.MGID)
	}
}

// IPoIB's broadcast group has the subnet's scope and partition (RFC 4391 §4).
func TestBroadcastGroup(t *testing.T) {
	f := New(Config{Scope: 5, PKey: 0x8123})
	defer f.Close()
	f.AddHost(HostConfig{})
	mgid, err := rdma.ParseGID("ff15:401b:8123::ffff:ffff")
	if err != nil {
		t.Fatal(err)
	}
	if _, mlid, ok := f.Record(mgid); !ok || mlid != rdma.MLIDMin {
		t.Errorf("the group exists: %v, with MLID %v, want true with %v", ok, mlid, rdma.MLIDMin)
	}
	if m := f.Members(mgid); len(m) != 1 || m[f.hosts[0].Port(0, 1)] != rdma.StateFullMember {
		t.Errorf("group has members %v, want one full member", m)
	}
}

// A new group has the port's largest MTU and rate that the selectors permit; if there is none, it is not made (IBTA
// 15.2.5.17). Rates are compared, not their codes, which are in another order.
func TestSelectors(t *testing.T) {
	f := New(Config{MTU: 2048})
	defer f.Close()
	newPeer(t, f.AddHost(HostConfig{RateGbps: 40}))
	port := f.hosts[0].Port(0, 1)
	const r2, r10, r14, r20, r30, r40, r56, r100 = 2, 3, 11, 6, 4, 7, 12, 16
	const m256, m1024, m2048, m4096 = 1, 3, 4, 5
	const greater, less, exactly, largest = 0, 1, 2, 3
	const mtu, rate = soft.MCMTU | soft.MCMTUSelector, soft.MCRate | soft.MCRateSelector
	n := byte(0)
	request := func(mask soft.MCMask, selector, value uint8) soft.SAReply {
		rec := soft.MCMember{
			MGID: rdma.GID{0: 0xff, 1: 0x12, 15: n}, PortGID: port.portGID(), PKey: rdma.DefaultPKey, JoinState: rdma.StateFullMember,
			QKey: 1, MTU: value, MTUSelector: selector, Rate: value, RateSelector: selector,
		}
		return f.request(port, soft.SARequest{Mask: createMask | mask, Rec: rec})
	}
	for _, c := range []struct {
		mask            soft.MCMask
		selector, value uint8
		want            uint8 // 0: refused
	}{
		{mtu, greater, m1024, m2048}, {mtu, greater, m2048, 0}, {mtu, less, m2048, m1024}, {mtu, less, m4096, m2048},
		{mtu, less, m256, 0}, {mtu, exactly, m1024, m1024}, {mtu, exactly, m4096, 0}, {mtu, largest, m256, m2048},
		{mtu, less, 6, 0}, {mtu, greater, 0, 0}, {soft.MCMTU, exactly, m1024, m2048}, {soft.MCMTUSelector, exactly, m1024, m2048},
		{rate, greater, r14, r40}, {rate, greater, r40, 0}, {rate, less, r14, r10}, {rate, less, r100, r40}, {rate, less, r2, 0},
		{rate, exactly, r14, r14}, {rate, exactly, r56, 0}, {rate, largest, r2, r40}, {rate, less, 63, 0}, {rate, greater, 63, 0},
		{soft.MCRate, exactly, r10, r40}, {soft.MCRateSelector, exactly, r10, r40},
	} {
		n++
		r := request(c.mask, c.selector, c.value)
		got := r.Rec.MTU
		if c.mask&rate != 0 {
			got = r.Rec.Rate
		}
		if got != c.want || (r.Status == soft.SAOk) != (c.want != 0) {
			t.Errorf("new group, mask %#x, selector %d, value %d: status %#x and %d, want %d", c.mask, c.selector, c.value, r.Status, got, c.want)
		}
	}
	n++
	if r := request(rate, exactly, r14); r.Status != soft.SAOk {
		t.Fatalf("the request has status %#x, want %#x", r.Status, soft.SAOk)
	}
	for _, c := range []struct {
		selector, value uint8
		ok              bool
	}{
		{greater, r10, true}, {greater, r14, false}, {greater, r20, false}, {greater, r30, false},
		{less, r10, false}, {less, r14, false}, {less, r20, true}, {less, r30, true},
		{exactly, r14, true}, {exactly, r20, false}, {largest, r100, true}, {greater, 63, false}, {less, 63, false},
	} {
		if r := request(rate, c.selector, c.value); (r.Status == soft.SAOk) != c.ok {
			t.Errorf("join of a group of 14 Gbit/s, selector %d, code %d: status %#x, want success %v", c.selector, c.value, r.Status, c.ok)
		}
	}
}
