package soft

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
)

// loop is a backend that delivers datagrams to the device that sent them, when it is polled, at most room at a time.
type loop struct {
	Passive
	dev    *Device
	room   int
	queue  [][]byte
	grams  []Datagram
	work   []func()
	joins  []string
	refuse error
}

func (l *loop) After(_ time.Duration, f func()) func() {
	l.work = append(l.work, f)
	return func() {}
}

func (l *loop) SA(uint8, SARequest, func(SAReply)) { panic("not InfiniBand") }

func (l *loop) JoinIP(_ uint8, ip netip.Addr) error {
	if l.refuse == nil {
		l.joins = append(l.joins, "join "+ip.String())
	}
	return l.refuse
}

func (l *loop) LeaveIP(_ uint8, ip netip.Addr) { l.joins = append(l.joins, "leave "+ip.String()) }

func (l *loop) Transmit(_ *QP, batch []Datagram) int {
	n := min(l.room, len(batch))
	for i := range batch[:n] {
		l.queue = append(l.queue, batch[i].AppendPayload(nil))
		l.grams = append(l.grams, batch[i])
	}
	l.room -= n
	return n
}

func (l *loop) NewQP() (rdma.QPN, error) { return l.dev.NextQPN(), nil }

func (l *loop) Progress() bool {
	for i := range l.grams {
		l.dev.Deliver(1, &l.grams[i], l.queue[i])
	}
	l.grams, l.queue = nil, nil
	return true
}

func (l *loop) run() {
	for len(l.work) > 0 {
		f := l.work[0]
		l.work = l.work[1:]
		f()
	}
}

func newLoop(t *testing.T) (*loop, rdma.ID, rdma.EventChannel, rdma.PD, rdma.CQ) {
	t.Helper()
	ip := netip.MustParseAddr("10.0.0.1")
	h := NewHost(HostConfig{Provider: "loop"})
	l := &loop{room: 1 << 20}
	l.dev = h.NewDevice(DeviceConfig{
		Attr: rdma.DeviceAttr{Name: "loop0", MaxQP: 10, MaxQPWR: 100, MaxSGE: 4, MaxCQ: 10, MaxCQE: 100, MaxMR: 10, MaxPD: 10, MaxAH: 10,
			MaxMcastGrp: 10, MaxMcastQPAttach: 10, MaxTotalMcastQPAttach: 10},
		Ports: []PortState{{State: rdma.PortActive, LinkLayer: rdma.LinkLayerEthernet, MTU: 1024, NetDev: "eth0", NetDevMTU: 1500,
			DefaultType: rdma.GIDTypeRoCEv2, PKeys: []rdma.PKey{rdma.DefaultPKey}, Addrs: []netip.Addr{ip},
			GIDs: []rdma.GIDEntry{{GID: rdma.GIDFromIP(ip), Index: 3, Port: 1, Type: rdma.GIDTypeRoCEv2}}}},
	}, l)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ch, err := h.NewEventChannel()
	must(err)
	id, err := ch.CreateID(rdma.PortSpaceUDP, nil)
	must(err)
	must(id.Bind(rdma.IPAddr(ip)))
	dev, err := id.Device()
	must(err)
	pd, err := dev.AllocPD()
	must(err)
	cq, err := dev.CreateCQ(64, nil, nil)
	must(err)
	_, err = id.CreateQP(pd, rdma.QPInitAttr{SendCQ: cq, RecvCQ: cq, Cap: rdma.QPCap{MaxSendWR: 8, MaxRecvWR: 8}})
	must(err)
	return l, id, ch, pd, cq
}

var loopGroup = rdma.IPAddr(netip.MustParseAddr("239.1.2.3"))

// A backend that accepts few datagrams at a time gets the rest in order when it calls Resume, and only then they
// complete. A backend that receives when polled is polled.
func TestBackendWithLittleRoom(t *testing.T) {
	l, id, ch, pd, cq := newLoop(t)
	if err := id.JoinMulticast(loopGroup, nil); err != nil {
		t.Fatal(err)
	}
	l.run()
	ev, err := ch.TryGetEvent()
	if err != nil || ev.Err() != nil {
		t.Fatalf("event %v, error %v, want one without error", ev, err)
	}
	ah, err := pd.CreateAH(ev.UD.AHAttr)
	if err != nil {
		t.Fatal(err)
	}
	mem := make([]byte, 4096)
	mr, err := pd.RegisterMemory(mem, rdma.AccessLocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	var sends []rdma.SendWR
	for i := range 6 {
		mem[i] = 'a' + byte(i)
		sends = append(sends, rdma.SendWR{WRID: uint64(i), SG: []rdma.SGE{{Buf: mem[i : i+1], LKey: mr.LKey()}}, Opcode: rdma.OpSend, Flags: rdma.SendSignaled, AH: ah, QKey: rdma.UDPQKey})
		recv := rdma.RecvWR{WRID: uint64(i), SG: []rdma.SGE{{Buf: mem[100*(i+1):][:100], LKey: mr.LKey()}}}
		if _, err := id.QP().PostRecv([]rdma.RecvWR{recv}); err != nil {
			t.Fatal(err)
		}
	}
	l.room = 2
	if n, err := id.QP().PostSend(sends); n != 6 || err != nil {
		t.Fatalf("posted %d sends, error %v, want 6", n, err)
	}
	wcs := make([]rdma.WorkCompletion, 16)
	got := ""
	for round, want := range []int{2, 2, 2} {
		sent := 0
		for {
			n, err := cq.Poll(wcs)
			if err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				break
			}
			for _, wc := range wcs[:n] {
				if wc.Opcode == rdma.WCSend {
					sent++
				} else {
					got += string(mem[100*(wc.WRID+1)+rdma.GRHBytes])
				}
			}
		}
		if sent != want {
			t.Errorf("round %d: %d sends completed, want %d", round, sent, want)
		}
		l.room = 2
		id.QP().(*QP).Resume()
	}
	if got != "abcdef" {
		t.Errorf("received %q, want %q", got, "abcdef")
	}
}

// The first membership of a port joins the IP group, and the last one leaves it. If the host refuses, the join fails
// with its errno and leaves no membership.
func TestIPMembership(t *testing.T) {
	l, id, _, _, _ := newLoop(t)
	l.refuse = syscall.ENOBUFS
	if err := id.JoinMulticast(loopGroup, nil); !errors.Is(err, syscall.ENOBUFS) {
		t.Errorf("a join that the host refuses fails with %v, want ENOBUFS", err)
	}
	if _, err := id.BeginLeave(loopGroup); !errors.Is(err, syscall.EADDRNOTAVAIL) {
		t.Errorf("leaving a group not joined fails with %v, want EADDRNOTAVAIL", err)
	}
	l.refuse = nil
	for range 2 {
		if err := id.JoinMulticast(loopGroup, nil); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if _, err := id.BeginLeave(loopGroup); err != nil {
			t.Fatal(err)
		}
	}
	if len(l.joins) != 2 || l.joins[0] != "join 239.1.2.3" || l.joins[1] != "leave 239.1.2.3" {
		t.Errorf("calls of the host: %q, want a join and a leave of 239.1.2.3", l.joins)
	}
}
