package sealed

import (
	"strings"

	"github.com/fanfaremq/fanfare/transport"
)

// A holder of the group's key can send in any sender's name, with any counter, and reseal packets of others. If the
// user can prove which publisher made a packet, and packets have numbers of their own (package transport/signed),
// repeats are recognized by those numbers, and only proven publishers become known senders.

var _ transport.Prover = (*Transport)(nil)

// Proven implements transport.Prover.
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
	k.heard = o.elapsed
}

// hostOf is the host of an address: "10.0.0.7:40233" without the port, since one host can use many
// ports. Texts in other formats are returned whole.
func hostOf(address string) string {
	if i := strings.LastIndexByte(address, ':'); i > 0 && !strings.Contains(address, "://") {
		return address[:i]
	}
	return address
}
