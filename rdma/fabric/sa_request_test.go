package fabric

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/internal/soft"
)

// Addresses for which the subnet administrator makes no group.
func TestNoSuchGroup(t *testing.T) {
	f := New(Config{})
	defer f.Close()
	p := newPeer(t, f.AddHost(HostConfig{}))
	for _, s := range []string{"fe80::1", "12::1", "ff22::1", "ff12:a01b::1"} {
		gid, err := rdma.ParseGID(s)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.status(rdma.IBAddr(gid), rdma.JoinFullMember); got != -22 {
			t.Errorf("%s: the join has status %d, want -22", s, got)
		}
	}
	// Requests as in MADs that the connection manager does not make.
	port := f.hosts[0].Port(0, 1)
	rec := soft.MCMember{MGID: rdma.GID{0: 0xff, 1: 0x12, 15: 5}, PortGID: port.portGID(), PKey: rdma.DefaultPKey, JoinState: rdma.StateFullMember}
	const all = soft.MCMGID | soft.MCPortGID | soft.MCJoinState | soft.MCQKey | soft.MCTClass | soft.MCPKey | soft.MCFlow | soft.MCSL
	n := byte(0)
	for name, c := range map[string]struct {
		edit func(*soft.SARequest)
		want soft.SAStatus
	}{
		"non-member creates":         {func(r *soft.SARequest) { r.Rec.JoinState = rdma.StateNonMember }, soft.SAReqInvalid},
		"no JoinState":               {func(r *soft.SARequest) { r.Rec.JoinState = 0 }, soft.SAReqInvalid},
		"another port's GID":         {func(r *soft.SARequest) { r.Rec.PortGID[15]++ }, soft.SAReqInvalid},
		"too few components":         {func(r *soft.SARequest) { r.Mask &^= soft.MCQKey }, soft.SAInsufficientComps},
		"without MGID":               {func(r *soft.SARequest) { r.Mask &^= soft.MCMGID }, soft.SAInsufficientComps},
		"delete of an unknown group": {func(r *soft.SARequest) { r.Delete = true }, soft.SAReqInvalid},
		"leave by a non-member":      {func(r *soft.SARequest) { r.Delete, r.Rec.MGID = true, p.broadcast(); r.Rec.JoinState = 2 }, soft.SAReqInvalid},
		"other Q_Key":                {func(r *soft.SARequest) { r.Rec.MGID, r.Rec.QKey = p.broadcast(), 7 }, soft.SAReqInvalid},
		"other flow label":           {func(r *soft.SARequest) { r.Rec.MGID, r.Rec.QKey, r.Rec.Flow = p.broadcast(), broadcastQKey, 7 }, soft.SAReqInvalid},
		"the broadcast group":        {func(r *soft.SARequest) { r.Rec.MGID, r.Rec.QKey = p.broadcast(), broadcastQKey }, soft.SAOk},
		"valid":                      {func(*soft.SARequest) {}, soft.SAOk},
	} {
		req := soft.SARequest{Mask: all, Rec: rec}
		n++
		req.Rec.MGID[14] = n
		c.edit(&req)
		f.mu.Lock()
		got := f.sa.handle(port, &req).Status
		f.mu.Unlock()
		if got != c.want {
			t.Errorf("%s: status %#x, want %#x", name, got, c.want)
		}
	}
}

func (p *peer) broadcast() rdma.GID { return p.f.sa.broadcast.rec.MGID }

// All members of a group have the same Q_Key.
func TestGroupHasOneQKey(t *testing.T) {
	f := New(Config{})
	defer f.Close()
	a := newPeer(t, f.AddHost(HostConfig{}))
	a.join(testGroup(1), rdma.JoinFullMember)
	h := f.AddHost(HostConfig{})
	ch, _ := h.NewEventChannel()
	id, err := ch.CreateID(rdma.PortSpaceIPoIB, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := id.Bind(h.Addr()); err != nil {
		t.Fatal(err)
	}
	if err := id.JoinMulticast(rdma.IBAddr(a.mgid(testGroup(1))), nil); err != nil {
		t.Fatal(err)
	}
	a.run()
	if ev, err := ch.TryGetEvent(); err != nil || ev.Status != -22 {
		t.Errorf("event %+v, error %v, want status -22", ev, err)
	}
}

// A member of an IPoIB group requests the values of IPoIB's broadcast group, including MTU, rate and hop limit. Others
// accept the group's values.
func TestIPoIBRequestsMoreFields(t *testing.T) {
	for name, edit := range map[string]func(g *Group){
		"unchanged": func(*Group) {},
		"MTU":       func(g *Group) { g.MTU = 1024 },
		"rate":      func(g *Group) { g.Rate = 16 },
		"hop limit": func(g *Group) { g.HopLimit = 9 },
	} {
		for ps, requested := range map[rdma.PortSpace]bool{rdma.PortSpaceIPoIB: true, rdma.PortSpaceUDP: false} {
			f := New(Config{SM: SM{Override: edit}})
			var status []int
			for range 2 {
				h := f.AddHost(HostConfig{})
				ch, _ := h.NewEventChannel()
				id, err := ch.CreateID(ps, nil)
				if err != nil {
					t.Fatal(err)
				}
				if err := id.Bind(h.Addr()); err != nil {
					t.Fatal(err)
				}
				if err := id.JoinMulticast(testGroup(1), nil); err != nil {
					t.Fatal(err)
				}
				f.AdvanceTo(f.Now() + time.Second)
				ev, err := ch.TryGetEvent()
				if err != nil {
					t.Fatal(err)
				}
				status = append(status, ev.Status)
			}
			want := 0
			if requested && name != "unchanged" {
				want = -22
			}
			if status[0] != 0 || status[1] != want {
				t.Errorf("%s, port space %v: the status of the first join is %d, of the second %d, want 0 and %d", name, ps, status[0], status[1], want)
			}
			f.Close()
		}
	}
}
