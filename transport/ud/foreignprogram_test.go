package ud_test

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/fabric"
)

// foreignProgram is another program that sends to a group through its own queue pair.
type foreignProgram struct {
	t  *testing.T
	qp rdma.QP
	ah rdma.AH
}

func (r *rig) foreignProgram(host *fabric.Host, group rdma.Addr) *foreignProgram {
	t := r.t
	t.Helper()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ch, err := host.NewEventChannel()
	ok(err)
	id, err := ch.CreateID(rdma.PortSpaceUDP, nil)
	ok(err)
	ok(id.Bind(host.Addr()))
	dev, err := id.Device()
	ok(err)
	pd, err := dev.AllocPD()
	ok(err)
	cq, err := dev.CreateCQ(16, nil, nil)
	ok(err)
	qp, err := id.CreateQP(pd, rdma.QPInitAttr{SendCQ: cq, RecvCQ: cq, Cap: rdma.QPCap{MaxSendWR: 4, MaxInlineData: 64}})
	ok(err)
	ok(id.JoinMulticastEx(rdma.JoinAttr{CompMask: 3, Flags: rdma.JoinSendOnlyFullMember, Addr: group}, nil))
	r.quiet(time.Millisecond)
	ev, err := ch.TryGetEvent()
	ok(err)
	defer ev.Ack()
	ah, err := pd.CreateAH(ev.UD.AHAttr)
	ok(err)
	return &foreignProgram{t, qp, ah}
}

// send sends text with a Q_Key.
func (s *foreignProgram) send(text string, qkey rdma.QKey) {
	s.t.Helper()
	wr := rdma.SendWR{SG: []rdma.SGE{{Buf: []byte(text)}}, Opcode: rdma.OpSendWithImm, Flags: rdma.SendInline, AH: s.ah, QKey: qkey}
	if _, err := s.qp.PostSend([]rdma.SendWR{wr}); err != nil {
		s.t.Fatal(err)
	}
}

// usePKey selects another entry of the port's P_Key table.
func (s *foreignProgram) usePKey(index uint16) {
	s.t.Helper()
	for _, step := range []struct {
		attr rdma.QPAttr
		mask rdma.QPAttrMask
	}{
		{rdma.QPAttr{State: rdma.QPReset}, 0},
		{rdma.QPAttr{State: rdma.QPInit, Port: 1, PKeyIndex: index, QKey: rdma.UDPQKey}, rdma.QPMaskPKeyIndex | rdma.QPMaskPort | rdma.QPMaskQKey},
		{rdma.QPAttr{State: rdma.QPRTR}, 0},
		{rdma.QPAttr{State: rdma.QPRTS}, rdma.QPMaskSQPSN},
	} {
		if err := s.qp.Modify(step.attr, step.mask|rdma.QPMaskState); err != nil {
			s.t.Fatal(err)
		}
	}
}
