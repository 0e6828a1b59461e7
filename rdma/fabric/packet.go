package fabric

import (
	"time"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/internal/soft"
)

// packet is a datagram in flight, shared by all its copies. Datagram and payload do not change; Fabric.mu guards refs.
type packet struct {
	d       soft.Datagram
	payload []byte
	key     groupKey // of the group, if multicast
	refs    int
}

// newPacket copies a datagram and returns it with one reference. The caller holds mu.
func (f *Fabric) newPacket(d *soft.Datagram) *packet {
	var p *packet
	if n := len(f.free); n > 0 {
		p = f.free[n-1]
		f.free = f.free[:n-1]
	} else {
		p = &packet{payload: make([]byte, 0, 4096)}
	}
	p.d = *d
	p.payload = d.AppendPayload(p.payload[:0])
	p.d.SG = nil
	p.refs = 1
	p.key = groupKey{}
	if d.DestQPN == rdma.MulticastQPN {
		if f.cfg.Flavor == RoCE {
			p.key.mac, _ = d.Net.Dst.MulticastMAC()
		} else {
			p.key.mlid = d.DLID
		}
	}
	return p
}

// release releases a reference. The caller holds mu.
func (f *Fabric) release(p *packet) {
	if p.refs--; p.refs == 0 {
		f.free = append(f.free, p)
	}
}

// defaultReorderDelay is longer than the time between two datagrams and shorter than that of a repair.
const defaultReorderDelay = 10 * time.Microsecond

// toPort sends a packet over the last link, with faults. It releases one reference. The caller holds mu.
func (f *Fabric) toPort(p *packet, port *Port) {
	if f.faults.Loss > 0 && f.rng.Float64() < f.faults.Loss {
		f.stats.Lost++
		f.release(p)
		return
	}
	if f.faults.Duplicate > 0 && f.rng.Float64() < f.faults.Duplicate {
		f.stats.Duplicated++
		p.refs++
		f.schedule(f.lastLink(port), action{pkt: p, port: port})
	}
	f.schedule(f.lastLink(port), action{pkt: p, port: port})
}

// lastLink returns the delay of a datagram on the link to a port.
func (f *Fabric) lastLink(port *Port) time.Duration {
	d := f.cfg.Latency
	if f.faults.Jitter > 0 {
		d += time.Duration(f.rng.Int64N(int64(f.faults.Jitter) + 1))
	}
	// Packets stay in order, except those delayed for reordering.
	at := max(f.time()+d, port.lastArrival)
	port.lastArrival = at
	d = at - f.time()
	if f.faults.Reorder > 0 && f.rng.Float64() < f.faults.Reorder {
		hold := f.faults.ReorderDelay
		if hold == 0 {
			hold = defaultReorderDelay
		}
		d += hold
	}
	return d
}
