package ud

import (
	"errors"
	"syscall"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/transport"
)

// Publishers join as send-only full members, so that nothing of the group is delivered to them
// (rdma_join_multicast_ex(3)). If the subnet manager does not support that they fall back to full membership, without
// attaching a queue pair.

// joinFlags are the flags of the next join attempt.
func (m *member) joinFlags() rdma.JoinFlags {
	if m.role == transport.RoleSender && !m.full {
		return rdma.JoinSendOnlyFullMember
	}
	return rdma.JoinFullMember
}

// noSendOnly reports whether an error can mean that the subnet manager does not support send-only members: EINVAL is
// any refusal of the subnet administrator, and kernels before 5 query the capability first and return EOPNOTSUPP.
func noSendOnly(err error, answer bool) bool {
	return answer && errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EOPNOTSUPP)
}

// reportFallback counts and reports that a publisher is a full member of a group.
func (t *Transport) reportFallback(group int) {
	t.counts.sendOnlyRefused.Add(1)
	if t.members.fellBack {
		return
	}
	t.members.fellBack = true
	report.SendOnlyRefused.Log(t.cfg.Logger, "group", t.addrs[group])
}
