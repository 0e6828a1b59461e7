package fabric

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
)

// 64 ports, each in all of 1000 groups, a message to each group.
func TestScale(t *testing.T) {
	t.Parallel() // the test mostly waits
	const ports, groups = 64, 1000
	if testing.Short() {
		t.Skip("64 ports and 1000 groups: skipped with -short")
	}
	for _, flavor := range []Flavor{InfiniBand, RoCE} {
		began := time.Now()
		f := New(Config{Flavor: flavor, Switches: 9, Latency: time.Microsecond})
		attr := rdma.QPInitAttr{Cap: rdma.QPCap{MaxSendWR: 16, MaxRecvWR: groups}}
		var peers []*peer
		for range ports {
			p := newPeerWith(t, f.AddHost(HostConfig{}), attr, 2*groups, nil)
			for g := range groups {
				if err := p.id.JoinMulticast(testGroup(g), g); err != nil {
					t.Fatal(err)
				}
			}
			peers = append(peers, p)
		}
		f.AdvanceTo(f.Now() + time.Second)
		ahs := make([]rdma.AH, groups)
		for i, p := range peers {
			for range groups {
				ev := p.event()
				if err := ev.Err(); err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					ahs[ev.Context.(int)] = p.ah(ev)
				}
			}
			for j := range groups { // they share slots, because only the count matters
				if _, err := p.qp.PostRecv([]rdma.RecvWR{p.recvWR(j % peerSlots)}); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, ah := range ahs {
			peers[0].send(ah, "to sixty-four")
			peers[0].poll()
		}
		f.AdvanceTo(f.Now() + time.Second)
		if s := f.Stats(); s.Delivered != ports*groups {
			t.Errorf("%v: delivered %d, want %d", flavor, s.Delivered, ports*groups)
		}
		for _, p := range peers {
			for g := range groups {
				if _, err := p.id.BeginLeave(testGroup(g)); err != nil {
					t.Fatal(err)
				}
			}
		}
		f.AdvanceTo(f.Now() + time.Second)
		if n := len(f.sa.groups); flavor == InfiniBand && n != 1 {
			t.Errorf("%d groups remain, want only the broadcast group", n)
		}
		f.Close()
		t.Logf("%v: %d ports in %d groups each took %v", flavor, ports, groups, time.Since(began).Round(time.Millisecond))
	}
}
