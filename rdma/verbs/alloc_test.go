//go:build rdma && linux && cgo

package verbs

import (
	"testing"

	"github.com/fanfaremq/fanfare/rdma"
)

// Posting and polling do not allocate.
func TestNoAllocations(t *testing.T) {
	hosts := testHosts(t)
	r := newRig(t, hosts[0])
	ah := r.join(testGroup(3), rdma.JoinFullMember)
	r.post()
	sends := make([]rdma.SendWR, 8)
	for i := range sends {
		sends[i] = r.sendWR(ah, "x")
	}
	sends[0].Flags |= rdma.SendInline
	all, again := make([]rdma.RecvWR, rigDepth), make([]rdma.RecvWR, 0, rigDepth)
	for i := range all {
		all[i] = r.recvWR(i)
	}
	wcs := make([]rdma.WorkCompletion, 16)
	n := testing.AllocsPerRun(50, func() {
		if _, err := r.qp.PostSend(sends); err != nil {
			t.Fatal(err)
		}
		for sent := 0; sent < len(sends); {
			k, err := r.cq.Poll(wcs)
			if err != nil {
				t.Fatal(err)
			}
			again = again[:0]
			for i := range wcs[:k] {
				if wcs[i].Opcode == rdma.WCSend {
					sent++
				} else { // the host's own message, which the IP stack returns
					again = append(again, all[wcs[i].WRID])
				}
			}
			if _, err := r.qp.PostRecv(again); err != nil {
				t.Fatal(err)
			}
			if _, err := r.ch.TryGetEvent(); err != rdma.ErrNoEvent {
				t.Fatal(err)
			}
		}
	})
	if n != 0 {
		t.Errorf("%v allocations per round, want none", n)
	}
}
