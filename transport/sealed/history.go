package sealed

import "github.com/fanfaremq/fanfare/transport"

// history records the packets received from a sender.
type history struct {
	from        int64 // packets with an earlier time may have arrived before the sender was forgotten
	newest      int64 // the latest time in its packets
	lastArrival int64 // arrival of the last packet, in seconds of opener.elapsed
	arrivals    [transport.MaxLegs]*window
}

// seen reports whether a packet counts as received on a leg. It allocates no memory, because the packet may be forged.
func (x *history) seen(leg uint8, a arrival) bool {
	if w := x.arrivals[leg%transport.MaxLegs]; w != nil {
		return w.seen(a)
	}
	return a.stated < x.from
}

// record records a packet for which seen was false.
func (x *history) record(leg uint8, a arrival) {
	if leg %= transport.MaxLegs; x.arrivals[leg] == nil {
		x.arrivals[leg] = &window{from: x.from}
	}
	x.arrivals[leg].record(a)
	x.newest, x.lastArrival = max(x.newest, a.stated), a.at
}
