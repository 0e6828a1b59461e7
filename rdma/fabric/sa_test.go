package fabric

import (
	"context"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
)

// status joins a group and returns the status of the event; 0 is success.
func (p *peer) status(group rdma.Addr, flags rdma.JoinFlags) int {
	p.t.Helper()
	if err := p.id.JoinMulticastEx(rdma.JoinAttr{CompMask: 3, Flags: flags, Addr: group}, nil); err != nil {
		p.t.Fatal(err)
	}
	p.f.AdvanceTo(p.f.Now() + 10*time.Second)
	return p.event().Status
}

func (p *peer) leave(group rdma.Addr) {
	p.t.Helper()
	pending, err := p.id.BeginLeave(group)
	if err != nil {
		p.t.Fatal(err)
	}
	p.run()
	if !pending.Done() || pending.Wait(context.Background()) != nil {
		p.t.Fatal("leave has not ended")
	}
}

// MLIDs are assigned from 0xC000, the first to the broadcast group. When none is free, joins fail. The MLID of a
// deleted group is assigned again.
func TestMLIDs(t *testing.T) {
	f := New(Config{SM: SM{MLIDs: 3}})
	defer f.Close()
	p := newPeer(t, f.AddHost(HostConfig{}))
	for i, want := range []rdma.LID{0xC001, 0xC002} {
		ah := p.join(testGroup(i), rdma.JoinSendOnlyFullMember)
		if got := ah.Attr().DLID; got != want {
			t.Errorf("group %d has MLID %v, want %v", i, got, want)
		}
	}
	if s := p.status(testGroup(9), rdma.JoinFullMember); s != -int(syscall.EINVAL) {
		t.Errorf("status %d without MLIDs, want -EINVAL", s)
	}
	p.leave(testGroup(0))
	if got := p.join(testGroup(8), rdma.JoinFullMember).Attr().DLID; got != 0xC001 {
		t.Errorf("MLID %v, want that of the deleted group", got)
	}
}

// A group is created with its first full member of either kind, and deleted with the last.
func TestGroupLifetime(t *testing.T) {
	f := New(Config{})
	defer f.Close()
	a, b := newPeer(t, f.AddHost(HostConfig{})), newPeer(t, f.AddHost(HostConfig{}))
	ah := a.join(testGroup(1), rdma.JoinSendOnlyFullMember)
	mgid := ah.Attr().GRH.DGID
	b.join(testGroup(1), rdma.JoinFullMember)
	a.join(testGroup(1), rdma.JoinFullMember) // a second state of the same port
	m := f.Members(mgid)
	if len(m) != 2 || m[f.hosts[0].Port(0, 1)] != 0x9 || m[f.hosts[1].Port(0, 1)] != 0x1 {
		t.Errorf("members %v, want the first port with state 0x9 and the second with 0x1", m)
	}
	a.leave(testGroup(1))
	a.leave(testGroup(1))
	if m := f.Members(mgid); len(m) != 1 {
		t.Errorf("members %v, want 1", m)
	}
	b.leave(testGroup(1))
	if f.Members(mgid) != nil {
		t.Error("the group still exists")
	}
	var kinds []RecordKind
	for _, r := range f.Trace() {
		kinds = append(kinds, r.Kind)
		if r.MGID != mgid || r.Refused {
			t.Errorf("record %v, want group %v and not refused", r, mgid)
		}
	}
	want := []RecordKind{GroupCreated, SASet, SASet, SASet, SADelete, SADelete, GroupDeleted, SADelete}
	if !slices.Equal(kinds, want) {
		t.Errorf("trace %v, want %v", kinds, want)
	}
}

// A port that joins must support the group's MTU, and be in its partition.
func TestJoinRefusals(t *testing.T) {
	f := New(Config{MTU: 2048, SM: SM{Override: func(g *Group) { g.MTU = 2048 }}})
	defer f.Close()
	a, b := newPeer(t, f.AddHost(HostConfig{})), newPeer(t, f.AddHost(HostConfig{}))
	a.join(testGroup(1), rdma.JoinFullMember)
	small := f.hosts[1].Port(0, 1)
	small.hca.dev.UpdatePort(1, func(s *portState) { s.MTU = 1024 })
	if s := b.status(testGroup(1), rdma.JoinFullMember); s != -22 {
		t.Errorf("a port with MTU 1024 in a group of 2048: status %d, want -22", s)
	}
	small.hca.dev.UpdatePort(1, func(s *portState) { s.MTU = 2048; s.PKeys = []rdma.PKey{0x8001} })
	if s := b.status(testGroup(1), rdma.JoinFullMember); s != -22 {
		t.Errorf("a port outside the partition: status %d", s)
	}
	small.SetPKeys(rdma.DefaultPKey)
	if s := b.status(testGroup(1), rdma.JoinFullMember); s != 0 {
		t.Errorf("a valid join: status %d, want 0", s)
	}
	// For a second member on the port with another Q_Key the SA gets no request.
	f.Trace()
	other, err := b.ch.CreateID(rdma.PortSpaceIPoIB, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Bind(f.hosts[1].Addr()); err != nil {
		t.Fatal(err)
	}
	if err := other.JoinMulticast(rdma.IBAddr(a.mgid(testGroup(1))), nil); err != nil {
		t.Fatal(err)
	}
	b.run()
	if ev := b.event(); ev.Status != -22 || len(f.Trace()) != 0 {
		t.Errorf("event %v has status %d, want -22, and %d records, want none", ev.Type, ev.Status, len(f.Trace()))
	}
}

func (p *peer) mgid(group rdma.Addr) rdma.GID {
	return rdma.MGIDForIB(group, rdma.PortSpaceUDP, rdma.DefaultScope, rdma.DefaultPKey)
}

// After a leave during a pending request, the port leaves when the answer arrives.
func TestLeaveBeforeTheAnswer(t *testing.T) {
	f := New(Config{SM: SM{ResponseDelay: time.Millisecond}})
	defer f.Close()
	p := newPeer(t, f.AddHost(HostConfig{}))
	if err := p.id.JoinMulticast(testGroup(1), nil); err != nil {
		t.Fatal(err)
	}
	f.AdvanceTo(100 * time.Microsecond) // the request is pending
	p.leave(testGroup(1))
	var kinds []RecordKind
	for _, r := range f.Trace() {
		kinds = append(kinds, r.Kind)
	}
	if want := []RecordKind{GroupCreated, SASet, GroupDeleted, SADelete}; !slices.Equal(kinds, want) {
		t.Errorf("trace %v, want %v", kinds, want)
	}
	if ev, err := p.ch.TryGetEvent(); err != rdma.ErrNoEvent {
		t.Errorf("event %+v, error %v, want none", ev, err)
	}
}

// A leave without an answer is sent again, twice.
func TestLeaveIsRepeated(t *testing.T) {
	f := New(Config{})
	defer f.Close()
	p := newPeer(t, f.AddHost(HostConfig{}))
	p.join(testGroup(1), rdma.JoinFullMember)
	f.SetSM(SM{Silent: true})
	if _, err := p.id.BeginLeave(testGroup(1)); err != nil {
		t.Fatal(err)
	}
	f.AdvanceTo(f.Now() + 5*time.Second) // the first and second requests are lost
	f.SetSM(SM{})
	f.AdvanceTo(f.Now() + 5*time.Second)
	if f.Members(p.mgid(testGroup(1))) != nil {
		t.Error("there was no third request")
	}
}

// A leave without an answer is sent three times, and then not again.
func TestLeaveInSilence(t *testing.T) {
	f := New(Config{})
	defer f.Close()
	p := newPeer(t, f.AddHost(HostConfig{}))
	p.join(testGroup(1), rdma.JoinFullMember)
	f.SetSM(SM{Silent: true})
	if pending, err := p.id.BeginLeave(testGroup(1)); err != nil || !pending.Done() {
		t.Fatalf("the leave is done: %v, error %v, want true and none without the subnet administrator", pending.Done(), err)
	}
	f.AdvanceTo(f.Now() + 7*time.Second) // two requests had no answer
	f.Trace()
	f.SetSM(SM{})
	f.AdvanceTo(f.Now() + 4*time.Second) // the answer to the third is still pending
	f.SetSM(SM{Silent: true})
	if len(f.Trace()) != 0 {
		t.Error("a fourth request")
	}
	f.SetSM(SM{})
	if s := p.status(testGroup(1), rdma.JoinFullMember); s != 0 {
		t.Errorf("join after a lost leave: status %d", s)
	}
}

// A restarted subnet manager asks all ports to register again.
func TestRestartSM(t *testing.T) {
	f := New(Config{})
	defer f.Close()
	p := newPeer(t, f.AddHost(HostConfig{}))
	dev, err := f.hosts[0].OpenDevice("sim0")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	p.join(testGroup(1), rdma.JoinFullMember)
	f.RestartSM()
	if f.Members(p.mgid(testGroup(1))) != nil {
		t.Error("the group still exists")
	}
	if ev := p.event(); ev.Status != -int(syscall.ENETRESET) {
		t.Errorf("event has status %d, want -ENETRESET", ev.Status)
	}
	if ev, err := dev.TryGetAsyncEvent(); err != nil || ev.Type != rdma.AsyncClientReregist || ev.Port != 1 {
		t.Errorf("async event %+v, %v, want %v of port 1", ev, err, rdma.AsyncClientReregist)
	}
	p.leave(testGroup(1))
	p.join(testGroup(1), rdma.JoinFullMember)
}

// A join whose GID is removed before the answer arrives is an error with status 0, as in the kernel, and the port
// leaves when the user does.
func TestGIDRemovedDuringJoin(t *testing.T) {
	f := New(Config{})
	defer f.Close()
	p := newPeer(t, f.AddHost(HostConfig{}))
	if err := p.id.JoinMulticast(testGroup(1), nil); err != nil {
		t.Fatal(err)
	}
	f.hosts[0].Port(0, 1).RemoveGIDs()
	p.run()
	if ev := p.event(); ev.Type != rdma.EventMulticastError || ev.Status != 0 || ev.Err() == nil {
		t.Errorf("event %v, status %d, error %v, want %v, 0 and an error", ev.Type, ev.Status, ev.Err(), rdma.EventMulticastError)
	}
	p.leave(testGroup(1))
	if f.Members(p.mgid(testGroup(1))) != nil {
		t.Error("the port is still a member")
	}
}
