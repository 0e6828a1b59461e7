package soft

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
)

// Each field of a group's record that another local member requests is compared with the request.
func TestFits(t *testing.T) {
	base := MCMember{
		PortGID: rdma.GID{15: 1}, QKey: 2, MLID: 0xC003, MTU: 4, TClass: 5, PKey: 0x8006, Rate: 7,
		SL: 8, Flow: 9, HopLimit: 10, Scope: 11,
	}
	const selectors = MCMTUSelector | MCRateSelector
	for name, c := range map[string]struct {
		bit  MCMask
		edit func(*MCMember)
	}{
		"PortGID":    {MCPortGID, func(m *MCMember) { m.PortGID[15]++ }},
		"QKey":       {MCQKey, func(m *MCMember) { m.QKey++ }},
		"MLID":       {MCMLID, func(m *MCMember) { m.MLID++ }},
		"MTU":        {MCMTU | MCMTUSelector, func(m *MCMember) { m.MTU++ }},
		"TClass":     {MCTClass, func(m *MCMember) { m.TClass++ }},
		"PKey":       {MCPKey, func(m *MCMember) { m.PKey++ }},
		"Rate":       {MCRate | MCRateSelector, func(m *MCMember) { m.Rate++ }},
		"SL":         {MCSL, func(m *MCMember) { m.SL++ }},
		"Flow":       {MCFlow, func(m *MCMember) { m.Flow++ }},
		"HopLimit":   {MCHopLimit, func(m *MCMember) { m.HopLimit++ }},
		"Scope":      {MCScope, func(m *MCMember) { m.Scope++ }},
		"no MTU":     {MCMTUSelector, func(m *MCMember) {}},
		"no rate":    {MCRateSelector, func(m *MCMember) {}},
		"everything": {1<<17 - 1, func(m *MCMember) {}},
	} {
		want := base
		want.MTUSelector, want.RateSelector = 2, 2
		c.edit(&want)
		differs := want.withoutSelectors() != base
		g := &ibGroup{rec: base}
		if got := g.fits(&SARequest{Mask: c.bit, Rec: want}); got == differs {
			t.Errorf("%s: the group fits: %v, want %v", name, got, !differs)
		}
		if !g.fits(&SARequest{Mask: (1<<17 - 1 - selectors) &^ c.bit, Rec: want}) {
			t.Errorf("%s does not fit, although it was not requested", name)
		}
	}
}

func (m MCMember) withoutSelectors() MCMember {
	m.MTUSelector, m.RateSelector = 0, 0
	return m
}

func TestSelected(t *testing.T) {
	for selector, want := range map[uint8][3]bool{0: {false, false, true}, 1: {true, false, false}, 2: {false, true, false}, 3: {true, true, true}} {
		for i, have := range []uint8{3, 4, 5} {
			if got := Selected(selector, have, 4); got != want[i] {
				t.Errorf("selector %d, %d with 4 requested: selected %v, want %v", selector, have, got, want[i])
			}
		}
	}
}

// subnet is a backend with an administrator that gives the configured answers.
type subnet struct {
	loop
	answer func(req SARequest) SAReply
}

func (s *subnet) SA(_ uint8, req SARequest, done func(SAReply)) {
	s.work = append(s.work, func() { done(s.answer(req)) })
}

// An answer of the administrator with another Q_Key than the id's is an error, as in kernels before 6.1.158: later ones
// report no event.
func TestAnswerWithAnotherQKey(t *testing.T) {
	ip := netip.MustParseAddr("10.0.0.1")
	gid := rdma.GIDFromParts(0xfe80<<48, 1)
	for qkey, want := range map[rdma.QKey]int{rdma.UDPQKey: 0, 7: -int(syscall.EINVAL)} {
		s := &subnet{loop: loop{room: 8}}
		s.answer = func(req SARequest) SAReply {
			req.Rec.QKey, req.Rec.MLID = qkey, 0xC001
			return SAReply{Rec: req.Rec}
		}
		h := NewHost(HostConfig{Provider: "subnet"})
		s.dev = h.NewDevice(DeviceConfig{
			Attr: rdma.DeviceAttr{Name: "ib0", MaxQP: 10},
			Ports: []PortState{{State: rdma.PortActive, LinkLayer: rdma.LinkLayerInfiniBand, MTU: 2048, PKeys: []rdma.PKey{rdma.DefaultPKey},
				Addrs: []netip.Addr{ip}, GIDs: []rdma.GIDEntry{{GID: gid, Port: 1}},
				IPoIB: IPoIB{Up: true, PKey: rdma.DefaultPKey, Scope: rdma.DefaultScope}}},
		}, s)
		ch, err := h.NewEventChannel()
		if err != nil {
			t.Fatal(err)
		}
		id, err := ch.CreateID(rdma.PortSpaceUDP, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := id.Bind(rdma.IPAddr(ip)); err != nil {
			t.Fatal(err)
		}
		if err := id.JoinMulticast(loopGroup, "mine"); err != nil {
			t.Fatal(err)
		}
		s.runAll(t)
		ev, err := ch.TryGetEvent()
		if err != nil {
			t.Fatalf("Q_Key %v: no event: %v", qkey, err)
		}
		if joined := ev.Type == rdma.EventMulticastJoin; joined != (want == 0) || ev.Status != want || ev.Context != "mine" {
			t.Errorf(`Q_Key %v: event %v, status %d, context %v, want status %d and context "mine"`, qkey, ev.Type, ev.Status, ev.Context, want)
		}
	}
}

// runAll runs the functions passed to After and SA, except timeouts.
func (s *subnet) runAll(t *testing.T) {
	t.Helper()
	for range 100 {
		if len(s.work) == 0 {
			return
		}
		f := s.work[0]
		s.work = s.work[1:]
		f()
	}
	t.Fatal("the functions do not end")
}

// After drops timeouts, which apply only without an answer.
func (s *subnet) After(d time.Duration, f func()) func() {
	if d > 0 {
		return func() {}
	}
	return s.loop.After(d, f)
}

// A port without a network interface joins nothing.
func TestPortWithoutInterface(t *testing.T) {
	l, id, _, _, _ := newLoop(t)
	l.dev.UpdatePort(1, func(s *PortState) { s.NetDev = "" })
	if err := id.JoinMulticast(loopGroup, nil); !errors.Is(err, syscall.ENODEV) {
		t.Errorf("the join fails with %v, want ENODEV", err)
	}
	if len(l.joins) != 0 {
		t.Errorf("events of the host: %q, want none", l.joins)
	}
}
