package transport

// Muter is a Transport that can keep packets out before they cost anything. All of it belongs to
// the loop.
type Muter interface {
	Transport
	// Mute keeps out, from now on, what comes from a peer to a group and begins as head says: trains by
	// their first packet. It reports whether it can; not every transport can, nor for any number. Groups
	// that are left and joined again stay muted. What is kept out is counted nowhere.
	Mute(group int, from Peer, head Head) bool
	// Unmute ends what a Mute with the same arguments began.
	Unmute(group int, from Peer, head Head)
}

// Head is how packets begin: where Mask has a bit they have that of Value.
type Head struct{ Value, Mask [HeadLen]byte }

// HeadLen is how many bytes of a packet a Head is about. Packets that are shorter have none.
const HeadLen = 32
