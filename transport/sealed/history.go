package sealed

import "github.com/fanfaremq/fanfare/transport"

// history records the packets received from a sender.
type history struct {
	from   int64 // what states an earlier time may have come before the sender was forgotten
	newest int64 // the latest time that its packets stated
	heard  int64 // when the last one came, in seconds of opener.elapsed
	came   [transport.MaxLegs]*window
}

// seen reports whether a packet counts as received on a leg. It uses no memory: the packet may be forged.
func (x *history) seen(leg uint8, a arrival) bool {
	if w := x.came[leg%transport.MaxLegs]; w != nil {
		return w.seen(a)
	}
	return a.stated < x.from
}

// take records a packet that was not seen.
func (x *history) take(leg uint8, a arrival) {
	if leg %= transport.MaxLegs; x.came[leg] == nil {
		x.came[leg] = &window{from: x.from}
	}
	x.came[leg].take(a)
	x.newest, x.heard = max(x.newest, a.stated), a.at
}
