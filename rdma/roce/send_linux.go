package roce

import (
	"net/netip"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/internal/rocev2"
	"github.com/fanfaremq/fanfare/rdma/internal/soft"
)

// The path of sent datagrams:
//
//	Transmit ─► fill: header, payload, ICRC into staging memory, one after another
//	    ├─ equal sizes, GSO ─► sendmsg with UDP_SEGMENT: the kernel numbers them 0, 1, …
//	    └─ otherwise ───────► sendmmsg: the kernel numbers each of them 0
//
// Linux sets these identifications on an unconnected socket with IP_MTU_DISCOVER set to DO (include/net/ip.h,
// ip_select_ident_segs; net/ipv4/af_inet.c, inet_gso_segment), so the ICRC can be computed without privileges.

// defaultHopLimit is the hop limit of the sockets, the same as the connection manager's.
const defaultHopLimit = 64

// sender has the sockets with which a queue pair sends.
type sender struct {
	d     *device
	qpn   rdma.QPN
	lease *socket

	mu      sync.Mutex
	closed  bool
	outlets []*outlet // by source address
}

func newSender(d *device, qpn rdma.QPN, lease *socket) *sender {
	return &sender{d: d, qpn: qpn, lease: lease}
}

func (s *sender) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, o := range s.outlets {
		s.d.mu.Lock()
		s.d.unwatch(o)
		s.d.mu.Unlock()
		o.close()
	}
	s.outlets = nil
}

// Transmit implements soft.Backend.
func (d *device) Transmit(q *soft.QP, batch []soft.Datagram) int {
	d.mu.Lock()
	s := d.senders[q.QPN()]
	d.mu.Unlock()
	if s == nil {
		return len(batch) // the provider is closed: the datagrams are lost
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	done := 0
	for done < len(batch) && !s.closed {
		dst := batch[done].Net.Dst
		o, err := s.outlet(batch[done].Net.Src)
		if err != nil {
			d.refused(q, dst, 1, err)
			done++
			continue
		}
		n, errno := o.send(batch[done:])
		if errno == unix.EAGAIN {
			if d.await(q, o) {
				return done
			}
			n = 1
		}
		if errno != 0 {
			d.refused(q, dst, n, errno)
		} else {
			q.Accept(dst)
		}
		done += n
	}
	return len(batch)
}

// refused counts datagrams that the system refused.
func (d *device) refused(q *soft.QP, dst rdma.GID, n int, err error) {
	d.count.sendErrors.Add(uint64(n))
	q.Refuse(dst, n, err)
}

// outlet returns the outlet for a source address. The caller holds mu.
func (s *sender) outlet(src rdma.GID) (*outlet, error) {
	for _, o := range s.outlets {
		if o.path.Src == src {
			return o, nil
		}
	}
	o, err := newOutlet(s.d, s.qpn, src)
	if err != nil {
		return nil, err
	}
	s.outlets = append(s.outlets, o)
	return o, nil
}

// send sends datagrams from the front of batch to one destination with one call. It returns the number that it sent, or
// with an errno the number that the system refused.
func (o *outlet) send(batch []soft.Datagram) (int, syscall.Errno) {
	trains := o.train >= 0 && o.d.trains.Load()
	n, bytes := o.fill(batch, trains)
	sent := n
	if trains = trains && n > 1; trains {
		errno := o.sendTrain(bytes)
		if errno != 0 && !sys.RefusesTrains(errno) {
			return n, errno
		}
		if errno != 0 {
			// The path does not support trains; their identifications were 0, 1, … …
			o.d.trains.Store(false)
			o.d.count.gsoRefused.Add(1)
			o.setICRCs(n)
			trains = false
		}
	}
	if !trains {
		var errno syscall.Errno
		if sent, errno = o.sendEach(n); errno != 0 {
			return 1, errno // the first one was refused
		}
	}
	if sent < n {
		bytes = 0
		for _, l := range o.lens[:sent] {
			bytes += l
		}
	}
	c := &o.d.count
	c.sent.Add(uint64(sent))
	c.sentBytes.Add(uint64(bytes))
	return sent, 0
}

// fill writes datagrams from the front of batch into staging memory, one after another. All have the same destination,
// and those of a train also the same size; only the last may be smaller. Datagrams that exceed one train are sent in
// equal parts.
func (o *outlet) fill(batch []soft.Datagram, train bool) (n, bytes int) {
	front := &batch[0].Net
	if o.path.Dst != front.Dst {
		o.path.Dst = front.Dst
		o.batch.SetAddress(sys.NewSockaddr(netip.AddrPortFrom(front.Dst.IP(), rocev2.Port), o.d.link.index))
	}
	hopLimit := front.HopLimit
	if hopLimit == defaultHopLimit {
		hopLimit = 0 // it is the default of the sockets
	}
	o.batch.SetHeader(hopLimit, front.TrafficClass)
	prefix, size, head := uint32(0), 0, 0
	limit := min(len(batch), sys.MaxSegments)
	for n < limit {
		g := &batch[n]
		if n > 0 && (g.Net != *front) {
			break
		}
		h := rocev2.Header{HasImm: g.HasImm, Imm: g.Imm, Solicited: g.Solicited, PKey: g.PKey,
			DestQPN: g.DestQPN, PSN: g.PSN, QKey: g.QKey, SrcQPN: g.SrcQPN}
		l := h.Size(g.Len)
		if bytes+l > sys.MaxTrainBytes || train && n > 0 && l > head {
			break
		}
		if l != size {
			prefix, size = o.path.Prefix(l), l
		}
		if n == 0 {
			head = l
			if fit := sys.MaxTrainBytes / l; limit > fit {
				parts := (limit + fit - 1) / fit
				limit = (limit + parts - 1) / parts
			}
		}
		b := o.staging[bytes : bytes+l]
		payload := h.Put(b, g.Len)
		for i := range g.SG {
			payload = payload[copy(payload, g.SG[i].Buf):]
		}
		start := prefix
		if train && o.path.DontFragment {
			start = rocev2.WithID(prefix, uint16(n))
		}
		rocev2.SetICRC(start, b)
		o.lens[n] = l
		n++
		bytes += l
		if train && l < head {
			break
		}
	}
	return n, bytes
}

// setICRCs computes the ICRCs for identification 0.
func (o *outlet) setICRCs(n int) {
	at := 0
	for _, l := range o.lens[:n] {
		rocev2.SetICRC(o.path.Prefix(l), o.staging[at:at+l])
		at += l
	}
}

// sendTrain sends the staging memory as segments of the first datagram's size.
func (o *outlet) sendTrain(bytes int) syscall.Errno {
	o.d.count.sendCalls.Add(1)
	o.batch.Put(0, o.staging[:bytes])
	errno := o.batch.SendTrain(o.train, 1, o.lens[0])
	if errno == unix.EAGAIN {
		o.full = o.train
	}
	return errno
}

// sendEach sends the first n datagrams separately. It returns an errno only if it sent none.
func (o *outlet) sendEach(n int) (int, syscall.Errno) {
	at := 0
	for i, l := range o.lens[:n] {
		o.batch.Put(i, o.staging[at:at+l])
		at += l
	}
	o.d.count.sendCalls.Add(1)
	sent, errno := o.batch.SendEach(o.single, n)
	if errno == unix.EAGAIN {
		o.full = o.single
	}
	return sent, errno
}
