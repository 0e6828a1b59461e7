package ud_test

import (
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/fabric"
)

// spy is a host of the simulated fabric that records calls of verbs: the lists posted, the requests for completions,
// the number of posted receives, and address handles that are closed while sends use them.
type spy struct {
	*fabric.Host
	waiter   *deafWaiter                           // the device's waiter; nil: none
	slow     *slowHandles                          // makes address handles to peers; nil: they are made immediately
	spins    []time.Duration                       // limits of PollFor
	postSend func(wrs []rdma.SendWR) []rdma.SendWR // may shorten a list
	deny     error                                 // error of every list
	memlock  int                                   // bytes that may be registered; 0: unlimited
	swallow  bool                                  // sends are accepted, but neither sent nor completed
	unsent   int                                   // number of packets of each list that count as refused by the system
	refusals uint64

	mu        sync.Mutex
	sends     []int // lengths of lists
	recvs     []int
	signaled  int
	posted    int               // posted receives whose completion was not polled yet
	lastUse   map[*spyAH]uint64 // the last WRID of sends with the handle
	completed uint64            // the last WRID of sends whose completion was polled
	closed    int               // closed address handles
	faults    []string
	ended     []string // closed objects, in order
	regions   int      // currently registered
	locked    int      // bytes in regions
}

type (
	spyChannel struct {
		rdma.EventChannel
		s *spy
	}
	spyID struct {
		rdma.ID
		s *spy
	}
	spyDevice struct {
		rdma.Device
		s *spy
	}
	spyPD struct {
		rdma.PD
		s *spy
	}
	spyMR struct {
		rdma.MR
		s     *spy
		bytes int
	}
	spyAH struct {
		rdma.AH
		s *spy
	}
	spyCQ struct {
		rdma.CQ
		s *spy
	}
	spyComp struct {
		rdma.CompChannel
		s *spy
	}
	spyQP struct {
		rdma.QP
		s *spy
	}
)

func newSpy(f *fabric.Fabric) *spy {
	return &spy{Host: f.AddHost(fabric.HostConfig{}), lastUse: make(map[*spyAH]uint64)}
}

func (s *spy) NewEventChannel() (rdma.EventChannel, error) {
	c, err := s.Host.NewEventChannel()
	return &spyChannel{c, s}, err
}

func (c *spyChannel) CreateID(ps rdma.PortSpace, context any) (rdma.ID, error) {
	id, err := c.EventChannel.CreateID(ps, context)
	return &spyID{id, c.s}, err
}

func (id *spyID) Device() (rdma.Device, error) {
	d, err := id.ID.Device()
	return &spyDevice{d, id.s}, err
}

func (id *spyID) CreateQP(pd rdma.PD, attr rdma.QPInitAttr) (rdma.QP, error) {
	attr.SendCQ, attr.RecvCQ = attr.SendCQ.(*spyCQ).CQ, attr.RecvCQ.(*spyCQ).CQ
	qp, err := id.ID.CreateQP(pd.(interface{ bare() rdma.PD }).bare(), attr)
	return &spyQP{qp, id.s}, err
}

func (d *spyDevice) NewWaiter() (rdma.Waiter, error) {
	if d.s.waiter == nil {
		return nil, rdma.ErrNotSupported
	}
	return d.s.waiter, nil
}

func (d *spyDevice) AllocPD() (rdma.PD, error) {
	pd, err := d.Device.AllocPD()
	if d.s.slow != nil {
		return &slowPD{&spyPD{pd, d.s}}, err
	}
	return &spyPD{pd, d.s}, err
}

func (pd *spyPD) bare() rdma.PD { return pd.PD }

func (d *spyDevice) NewCompChannel() (rdma.CompChannel, error) {
	c, err := d.Device.NewCompChannel()
	return &spyComp{c, d.s}, err
}

func (d *spyDevice) CreateCQ(entries int, c rdma.CompChannel, _ any) (rdma.CQ, error) {
	q := &spyCQ{s: d.s}
	var err error
	q.CQ, err = d.Device.CreateCQ(entries, c.(*spyComp).CompChannel, q)
	return q, err
}

func (c *spyComp) TryWait() (rdma.CQ, error) {
	cq, err := c.CompChannel.TryWait()
	if err != nil {
		return nil, err
	}
	return cq.Context().(*spyCQ), nil
}

func (pd *spyPD) RegisterMemory(mem []byte, access rdma.Access) (rdma.MR, error) {
	s := pd.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.memlock > 0 && s.locked+len(mem) > s.memlock {
		return nil, rdma.Errorf("register memory", syscall.ENOMEM, "%d bytes are locked", s.locked)
	}
	mr, err := pd.PD.RegisterMemory(mem, access)
	if err != nil {
		return nil, err
	}
	s.regions++
	s.locked += len(mem)
	return &spyMR{mr, s, len(mem)}, nil
}

func (mr *spyMR) Close() error {
	mr.s.mu.Lock()
	defer mr.s.mu.Unlock()
	mr.s.ended = append(mr.s.ended, "region")
	mr.s.regions--
	mr.s.locked -= mr.bytes
	return mr.MR.Close()
}

func (pd *spyPD) CreateAH(attr rdma.AHAttr) (rdma.AH, error) {
	ah, err := pd.PD.CreateAH(attr)
	if err != nil {
		return nil, err
	}
	return &spyAH{ah, pd.s}, nil
}

func (ah *spyAH) Close() error {
	s := ah.s
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = append(s.ended, "address handle")
	s.closed++
	if last := s.lastUse[ah]; last > s.completed {
		s.faults = append(s.faults, fmt.Sprintf("handle closed while send %d is pending; %d are completed", last, s.completed))
	}
	return ah.AH.Close()
}

func (q *spyCQ) Poll(batch []rdma.WorkCompletion) (int, error) {
	n, err := q.CQ.Poll(batch)
	s := q.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, wc := range batch[:n] {
		if wc.Opcode == rdma.WCRecv {
			s.posted--
		} else {
			s.completed = max(s.completed, wc.WRID)
		}
	}
	return n, err
}

func (q *spyCQ) PollFor(batch []rdma.WorkCompletion, limit time.Duration) (int, error) {
	q.s.spins = append(q.s.spins, limit)
	return q.Poll(batch)
}

func (qp *spyQP) PostSend(wrs []rdma.SendWR) (int, error) {
	s := qp.s
	s.mu.Lock()
	defer s.mu.Unlock()
	var short error
	if s.deny != nil {
		return 0, s.deny
	}
	if s.postSend != nil {
		if fewer := s.postSend(wrs); len(fewer) < len(wrs) {
			wrs, short = fewer, rdma.Errorf("post send", syscall.ENOMEM, "no room")
		}
	}
	if len(wrs) == 0 {
		return 0, short
	}
	if s.swallow {
		return len(wrs), short
	}
	s.refusals += uint64(min(s.unsent, len(wrs)))
	s.sends = append(s.sends, len(wrs))
	bare := append([]rdma.SendWR(nil), wrs...)
	for i, wr := range wrs {
		ah := wr.AH.(*spyAH)
		bare[i].AH = ah.AH
		s.lastUse[ah] = wr.WRID
		if wr.Flags&rdma.SendSignaled != 0 {
			s.signaled++
		}
	}
	n, err := qp.QP.PostSend(bare)
	if err == nil {
		err = short
	}
	return n, err
}

func (qp *spyQP) PostRecv(wrs []rdma.RecvWR) (int, error) {
	n, err := qp.QP.PostRecv(wrs)
	qp.s.mu.Lock()
	defer qp.s.mu.Unlock()
	qp.s.recvs = append(qp.s.recvs, len(wrs))
	qp.s.posted += n
	return n, err
}

// deafWaiter returns only after its timeout or Wake: it ignores events, so that those that the loop does not poll
// before it waits stay unnoticed.
type deafWaiter struct {
	waits []time.Duration // timeouts of the calls
	woken bool
}

func (w *deafWaiter) Wait(timeout time.Duration) error {
	w.waits = append(w.waits, timeout)
	return nil
}

func (w *deafWaiter) Wake()        { w.woken = true }
func (w *deafWaiter) Close() error { return nil }

func (qp *spyQP) Refused() uint64 { return qp.s.refusals }

func (qp *spyQP) Refusal(rdma.GID) error {
	if qp.s.unsent > 0 {
		return syscall.ENETUNREACH
	}
	return nil
}

func (qp *spyQP) Dropped() uint64 { return qp.QP.(rdma.DropCounter).Dropped() }
