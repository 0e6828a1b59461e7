//go:build !fanfare_plainudp

package udp

import "time"

// flood detects high load with frequent sleeps of the loop: then the cost of a wake-up matters more than its latency,
// and Wait parks (see sys.Waiter). Parking has a cost, too: a sender notifies a second epoll descriptor. A subscriber
// with its own processor hardly sleeps; 4 that share two processors sleep once for each receive, 16 twice.
type flood struct {
	left     int  // Waits until the flood ends without another large receive
	receives int  // receives in the current sample
	sleeps   int  // sleeps in the current sample
	parks    bool // Wait parks: the last sample had many sleeps
	crowded  int  // remaining samples without parking, because other goroutines kept a parked loop waiting
}

const (
	// floodBytes is the minimum size of a receive in a flood: trains, not packets.
	floodBytes = 8 << 10
	// floodWaits is the number of Waits without such a receive that end a flood.
	floodWaits = 256
	// floodSample is the number of receives in a sample: half as many sleeps are many, or a quarter while parking.
	floodSample = 32
	// crowdedFor is the number of samples without parking after a loop was kept waiting for a processor: some seconds.
	crowdedFor = 128
	// asleep is the minimum duration of a Wait that slept.
	asleep = 5 * time.Microsecond
)

// received records a receive, and reports whether it belongs to a flood.
func (f *flood) received(bytes int) bool {
	if bytes < floodBytes {
		return false
	}
	f.left = floodWaits
	if f.receives++; f.receives == floodSample {
		many := floodSample / 2
		if f.parks {
			many = floodSample / 4
		}
		f.parks = f.sleeps >= many && f.crowded == 0
		f.receives, f.sleeps, f.crowded = 0, 0, max(0, f.crowded-1)
	}
	return true
}

// wait records a Wait, and reports whether to park.
func (f *flood) wait() bool {
	switch f.left {
	case 0:
		return false
	case 1:
		*f = flood{}
		return false
	}
	f.left--
	return f.parks
}

// slept records that a Wait slept.
func (f *flood) slept() {
	if f.left > 0 {
		f.sleeps++
	}
}

// crowd stops parking for a while, because other goroutines of the process kept a parked loop waiting.
func (f *flood) crowd() {
	if f.left > 0 {
		f.parks, f.crowded = false, crowdedFor
	}
}
