//go:build !fanfare_plainudp

package udp

// flood tells when much comes, and whether the loop sleeps so often meanwhile that
// what it costs to wake it counts, and not how long it takes. Then Wait parks (see
// waiter). To be parked costs, too: whoever sends pays for a second epoll
// descriptor being told. One subscriber that has a processor for itself hardly
// sleeps; 4 that share two sleep once a receive, and 16 twice.
type flood struct {
	left     int  // Waits that belong to it, unless more comes
	receives int  // since the waits were last judged
	waits    int  // since then
	parks    bool // there were many
}

const (
	// floodBytes is how much comes at once in a flood: trains, not packets.
	floodBytes = 8 << 10
	// floodWaits is how many Waits without such a receive end it.
	floodWaits = 256
	// floodSample is how many receives it takes to judge: as many waits for half of
	// them are many.
	floodSample = 128
)

// received notes a receive. It reports whether it is one of a flood.
func (f *flood) received(bytes int) bool {
	if bytes < floodBytes {
		return false
	}
	f.left = floodWaits
	if f.receives++; f.receives == floodSample {
		*f = flood{left: floodWaits, parks: f.waits >= floodSample/2}
	}
	return true
}

// wait notes a Wait. It reports whether to park.
func (f *flood) wait() bool {
	switch f.left {
	case 0:
		return false
	case 1:
		*f = flood{}
		return false
	}
	f.left--
	f.waits++
	return f.parks
}
