package soft

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/fanfaremq/fanfare/rdma"
)

// trainRig is a queue pair that receives trains.
type trainRig struct {
	l   *loop
	id  rdma.ID
	cq  rdma.CQ
	mr  rdma.MR
	mem []byte
	d   Datagram
}

func newTrainRig(t *testing.T) *trainRig {
	l, id, _, pd, cq := newLoop(t)
	r := &trainRig{l: l, id: id, cq: cq, mem: make([]byte, 100*64)}
	var err error
	if r.mr, err = pd.RegisterMemory(r.mem, rdma.AccessLocalWrite); err != nil {
		t.Fatal(err)
	}
	q, err := id.QP().Query()
	if err != nil {
		t.Fatal(err)
	}
	r.d = Datagram{SrcQPN: 99, DestQPN: id.QP().QPN(), PKey: rdma.DefaultPKey, QKey: q.QKey, Net: rdma.Header{
		Src: rdma.GIDFromIP(loopGroup.IP), Dst: rdma.GIDFromIP(loopGroup.IP)}}
	return r
}

// post posts buffers of 100 bytes.
func (r *trainRig) post(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		wr := rdma.RecvWR{WRID: uint64(i), SG: []rdma.SGE{{Buf: r.mem[100*i:][:100], LKey: r.mr.LKey()}}}
		if _, err := r.id.QP().PostRecv([]rdma.RecvWR{wr}); err != nil {
			t.Fatal(err)
		}
	}
}

func arrivals(n int) []Arrival {
	var list []Arrival
	for i := range n {
		list = append(list, Arrival{Payload: fmt.Appendf(nil, "%03d", i), HasImm: i%2 == 0, Imm: [4]byte{byte(i)}})
	}
	return list
}

// Each datagram of a train is delivered as a message, in order. Only those without a large enough buffer are dropped
// and counted.
func TestDeliverTrain(t *testing.T) {
	r := newTrainRig(t)
	r.post(t, 8)
	train := arrivals(12)
	train[2].Payload = make([]byte, 61) // the buffer stays posted for the next one
	if n := r.l.dev.DeliverTrain(1, &r.d, train); n != 8 {
		t.Errorf("%d delivered, want 8", n)
	}
	wcs := make([]rdma.WorkCompletion, 16)
	n, err := r.cq.Poll(wcs)
	if n != 8 || err != nil {
		t.Fatalf("%d completions, error %v, want 8", n, err)
	}
	for i, wc := range wcs[:n] {
		from := i
		if i >= 2 {
			from++
		}
		data := string(r.mem[100*wc.WRID+rdma.GRHBytes:][:3])
		imm := wc.Flags&rdma.WCWithImm != 0
		if data != fmt.Sprintf("%03d", from) || wc.WRID != uint64(i) || wc.SrcQPN != 99 || wc.ByteLen != rdma.GRHBytes+3 ||
			imm != (from%2 == 0) || imm && wc.Imm != [4]byte{byte(from)} {
			t.Errorf("completion %d is %+v with %q, want immediate data only of an even sender", i, wc, data)
		}
	}
	q := r.id.QP().(rdma.DropCounter)
	if got := q.Dropped(); got != 4 {
		t.Errorf("%d dropped by the queue pair, want 4", got)
	}
	if got := r.l.dev.ports[0].dropped.Load(); got != 4 {
		t.Errorf("%d dropped by the port, want 4", got)
	}
	// Wrong keys are counted once for each datagram.
	r.d.QKey++
	if n := r.l.dev.DeliverTrain(1, &r.d, train[:5]); n != 0 || r.l.dev.ports[0].qkeyViolations.Load() != 5 {
		t.Errorf("wrong Q_Key: %d delivered, %d violations", n, r.l.dev.ports[0].qkeyViolations.Load())
	}
	r.d.QKey--
	r.d.DestQPN++
	if n := r.l.dev.DeliverTrain(1, &r.d, train[:5]); n != 0 || r.l.dev.ports[0].dropped.Load() != 14 {
		t.Errorf("unknown queue pair: %d delivered, %d dropped, want 0 and 14", n, r.l.dev.ports[0].dropped.Load())
	}
}

// A train that overflows the completion queue is delivered as far as the queue has room. Then queue and queue pair are
// in the error state.
func TestDeliverTrainOverflows(t *testing.T) {
	r := newTrainRig(t)
	for range 7 { // 56 of 64 entries
		r.post(t, 8)
		if n := r.l.dev.DeliverTrain(1, &r.d, arrivals(8)); n != 8 {
			t.Fatalf("%d packets taken, want 8", n)
		}
	}
	r.post(t, 8)
	if n := r.l.dev.DeliverTrain(1, &r.d, arrivals(5)); n != 5 {
		t.Fatalf("%d packets taken, want 5", n)
	}
	r.post(t, 5)
	if n := r.l.dev.DeliverTrain(1, &r.d, arrivals(8)); n != 3 {
		t.Errorf("%d delivered, want 3", n)
	}
	if got := r.l.dev.ports[0].dropped.Load(); got != 5 {
		t.Errorf("%d dropped, want 5", got)
	}
	if a, err := r.id.QP().Query(); err != nil || a.State != rdma.QPErr {
		t.Errorf("the queue pair is in %v, error %v, want %v", a.State, err, rdma.QPErr)
	}
	got, wcs := 0, make([]rdma.WorkCompletion, 16)
	for {
		n, err := r.cq.Poll(wcs)
		if got += n; err != nil {
			if !errors.Is(err, syscall.EIO) {
				t.Error(err)
			}
			break
		}
	}
	if got != 64 {
		t.Errorf("%d completions, want 64", got)
	}
}
