package reliable

import "github.com/fanfaremq/fanfare/internal/wire"

// noticed is what a receiver found in packets that it refused, until its owner takes it.
type noticed struct {
	damage Damage
	sealed sealedSeen
}

// sealedSeen records sealed packets (docs/protocol §27), which a receiver behind a transport without keys cannot open.
type sealedSeen struct {
	seen, taken bool
	key         uint32
	address     string
}

// note records the first such packet.
func (x *sealedSeen) note(b []byte, from uint64, peers Sources) {
	if !x.seen {
		*x = sealedSeen{seen: true, key: wire.ParseSealed(b).Key, address: peers.Address(from)}
	}
}

// TakeSealed returns, once, the key id and the source of the first sealed packet.
func (r *Receiver) TakeSealed() (key uint32, address string, seen bool) {
	x := &r.sealed
	if !x.seen || x.taken {
		return 0, "", false
	}
	x.taken = true
	return x.key, x.address, true
}
