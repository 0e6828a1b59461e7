package soft

import (
	"syscall"
	"testing"

	"github.com/fanfaremq/fanfare/rdma"
)

// Datagrams that a backend refuses are counted. The reason is kept for each destination until a datagram to it is sent,
// for a limited number of destinations.
func TestRefused(t *testing.T) {
	_, id, _, _, _ := newLoop(t)
	q := id.QP().(*QP)
	a, b := rdma.GID{15: 1}, rdma.GID{15: 2}
	q.Accept(a)
	q.Refuse(a, 3, syscall.ENETUNREACH)
	q.Refuse(b, 1, syscall.EPERM)
	if n := q.Refused(); n != 4 || q.Refusal(a) != syscall.ENETUNREACH || q.Refusal(b) != syscall.EPERM {
		t.Errorf("%d sends refused, with %v and %v, want 4 with ENETUNREACH and EPERM", n, q.Refusal(a), q.Refusal(b))
	}
	if q.Accept(a); q.Refused() != 4 || q.Refusal(a) != nil || q.Refusal(b) != syscall.EPERM {
		t.Errorf("%d sends refused, with %v and %v, want 4 with none and EPERM", q.Refused(), q.Refusal(a), q.Refusal(b))
	}
	for i := range 10 * maxRefusals {
		q.Refuse(rdma.GID{14: byte(i >> 8), 15: byte(i)}, 1, syscall.EPERM)
	}
	if len(q.refused.by) > maxRefusals || q.Refused() != 4+10*maxRefusals {
		t.Errorf("%d destinations stored and %d sends refused, want at most %d and exactly %d", len(q.refused.by), q.Refused(), maxRefusals, 4+10*maxRefusals)
	}
}
