package sealed

import (
	"strings"

	"github.com/fanfaremq/fanfare/transport"
)

// Who has the group's key can send in any sender's name, with any counter, and seal anew what others have made. Where the user has
// proof beside of who made a packet, which has a number of its own (package transport/signed), that decides what came before,
// and only whose packets are proven takes a place among the senders that are known.

var _ transport.Prover = (*Transport)(nil)

// Proven implements transport.Prover.
func (t *Transport) Proven(tr *transport.Train, i int, signer uint32) {
	if o := t.opener; o.proves && tr.Group != transport.Unicast {
		o.proven(header(tr.Data[i*tr.SegmentSize:]), signer)
	}
}

// proven makes the sender of a packet that was opened a known one, if there is room: so none that come of others displace it.
func (o *opener) proven(h header, signer uint32) {
	k := o.senders.find(h[atSender:atTrain])
	if k == nil {
		x := who{signer: signer}
		if k, _ = o.candidates.get(h.sender()); k == nil || !o.senders.room(k.key.ID, x, o.elapsed) {
			return
		}
		o.candidates.drop(k.name)
		o.senders.add(k, x)
	}
	k.heard = o.elapsed
}

// hostOf is the host of an address: of "10.0.0.7:40233" that without the port, which anybody can have more of. Texts of other
// kinds are whole.
func hostOf(address string) string {
	if i := strings.LastIndexByte(address, ':'); i > 0 && !strings.Contains(address, "://") {
		return address[:i]
	}
	return address
}
