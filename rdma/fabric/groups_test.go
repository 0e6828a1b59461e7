package fabric

import (
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/internal/soft"
)

// Only members can leave, and only with JoinState bits that they have. A group is deleted with its last full member of
// either kind, whatever other members it has.
func TestOnlyMembersLeave(t *testing.T) {
	f := New(Config{})
	defer f.Close()
	newPeer(t, f.AddHost(HostConfig{}))
	newPeer(t, f.AddHost(HostConfig{}))
	newPeer(t, f.AddHost(HostConfig{}))
	mgid := rdma.GID{0: 0xff, 1: 0x12, 15: 5}
	req := func(host int, del bool, state rdma.JoinState) soft.SAStatus {
		port := f.hosts[host].Port(0, 1)
		mask := createMask
		if del {
			mask = soft.MCMGID | soft.MCPortGID | soft.MCJoinState
		}
		return f.request(port, soft.SARequest{Delete: del, Mask: mask, Rec: soft.MCMember{
			MGID: mgid, PortGID: port.portGID(), PKey: rdma.DefaultPKey, QKey: 1, JoinState: state}}).Status
	}
	want := func(what string, got, want soft.SAStatus) {
		t.Helper()
		if got != want {
			t.Errorf("%s: status %#x, want %#x", what, got, want)
		}
	}
	want("full member", req(0, false, rdma.StateFullMember), soft.SAOk)
	want("non-member", req(1, false, rdma.StateNonMember), soft.SAOk)
	want("leave by a non-member", req(2, true, rdma.StateFullMember), soft.SAReqInvalid)
	want("leave with no bits", req(0, true, 0), soft.SAReqInvalid)
	want("leave with bits of another kind", req(0, true, rdma.StateSendOnlyFullMember), soft.SAReqInvalid)
	want("leave with more bits", req(0, true, rdma.StateFullMember|rdma.StateNonMember), soft.SAReqInvalid)
	if m := f.Members(mgid); len(m) != 2 {
		t.Errorf("group has members %v, want 2", m)
	}
	want("leave", req(0, true, rdma.StateFullMember), soft.SAOk)
	if m := f.Members(mgid); m != nil {
		t.Errorf("the group has members %v, but no full member", m)
	}
	want("leave of a deleted group", req(1, true, rdma.StateNonMember), soft.SAReqInvalid)
}

// After a restart of the subnet manager all tables are empty and all MLIDs free, except those of the broadcast group,
// which exists even if no port is up.
func TestRestartClearsTables(t *testing.T) {
	f := New(Config{})
	defer f.Close()
	from, to := newPeer(t, f.AddHost(HostConfig{})), newPeer(t, f.AddHost(HostConfig{}))
	ah := from.join(testGroup(1), rdma.JoinSendOnlyFullMember)
	to.join(testGroup(1), rdma.JoinFullMember)
	to.post(4)
	from.send(ah, "before")
	from.run()
	f.RestartSM()
	from.run()
	from.send(ah, "to a deleted tree")
	from.run()
	if got := to.received(); !slices.Equal(got, []string{"before"}) || f.Stats().NoPath != 1 {
		t.Errorf("received %q, want %q and 1 packet without path: %+v", got, "before", f.Stats())
	}
	from.event()
	to.event()
	if got := to.join(testGroup(2), rdma.JoinFullMember).Attr().DLID; got != rdma.MLIDMin+1 {
		t.Errorf("MLID %v, want the first one after that of the broadcast group", got)
	}
	for _, h := range f.hosts {
		h.Port(0, 1).SetUp(false)
	}
	if _, mlid, ok := f.Record(from.broadcast()); !ok || mlid != rdma.MLIDMin {
		t.Errorf("the broadcast group exists: %v, with MLID %v, want true with %v", ok, mlid, rdma.MLIDMin)
	}
}

// The subnet administrator answers after its delay, but not a port that is down.
func TestAnswerDelay(t *testing.T) {
	const delay = 10 * time.Millisecond
	f := New(Config{SM: SM{ResponseDelay: delay}})
	defer f.Close()
	p := newPeer(t, f.AddHost(HostConfig{}))
	start := f.Now()
	if err := p.id.JoinMulticast(testGroup(1), nil); err != nil {
		t.Fatal(err)
	}
	f.AdvanceTo(start + delay - 1)
	if ev, err := p.ch.TryGetEvent(); err != rdma.ErrNoEvent {
		t.Fatalf("too early: %+v, %v", ev, err)
	}
	f.AdvanceTo(start + delay)
	if ev := p.event(); ev.Type != rdma.EventMulticastJoin {
		t.Errorf("event %v, want a join", ev.Type)
	}
	f.hosts[0].Port(0, 1).SetUp(false)
	p.run()
	p.event() // membership lost
	if s := p.status(testGroup(2), rdma.JoinFullMember); s != -110 {
		t.Errorf("join on a port that is down: status %d, want -110", s)
	}
}
