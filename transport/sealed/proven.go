package sealed

import (
	"strings"

	"github.com/fanfaremq/fanfare/transport"
)

// A holder of the group's key can send in any sender's name, with any counter, and reseal packets of others. If the
// user verifies the publisher of each packet, and packets have signed numbers (package transport/signed), repeats are
// recognized by those numbers, and only verified publishers become known senders.

var _ transport.Prover = (*Transport)(nil)

func (t *Transport) Proven(tr *transport.Train, i int, signer uint32) {
	if o := t.opener; o.proves && tr.Group != transport.Unicast {
		o.proven(header(tr.Data[i*tr.SegmentSize:]), signer)
	}
}

// proven makes the sender of an opened packet known, if there is room: so senders without proof cannot displace it.
func (o *opener) proven(h header, signer uint32) {
	k := o.senders.find(h[atSender:atTrain])
	if k == nil {
		x := owner{signer: signer}
		if k, _ = o.candidates.get(h.sender()); k == nil || !o.senders.room(k.key.ID, x, o.old()) {
			return
		}
		o.candidates.drop(k.name)
		o.senders.add(k, x)
	}
	k.lastArrival = o.elapsed
}

// hostOf is the host of an address such as "10.0.0.7:40233", without the port, because one host can use many ports.
// Addresses in other formats are returned unchanged.
func hostOf(address string) string {
	if i := strings.LastIndexByte(address, ':'); i > 0 && !strings.Contains(address, "://") {
		return address[:i]
	}
	return address
}
