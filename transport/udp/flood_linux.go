//go:build !fanfare_plainudp

package udp

import "time"

// flood detects high load with frequent sleeps of the loop, when the cost of a wake-up matters and not its latency.
// Then Wait parks (see sys.Waiter). Parking has a cost, too: a sender notifies a second epoll descriptor. A subscriber
// with a processor of its own hardly sleeps; 4 that share two sleep once per receive, and 16 twice.
type flood struct {
	left     int  // Waits that belong to it, unless more comes
	receives int  // since the sleeps were last judged
	sleeps   int  // since then
	parks    bool // there were many
	crowded  int  // judgements to come during which other goroutines may keep a parked one waiting
}

const (
	// floodBytes is how much comes at once in a flood: trains, not packets.
	floodBytes = 8 << 10
	// floodWaits is how many Waits without such a receive end it.
	floodWaits = 256
	// floodSample is how many receives it takes to judge: half as many sleeps are many, or a quarter while parking.
	floodSample = 32
	// crowdedFor is for how many samples a loop that was kept waiting for a processor does not park: some seconds.
	crowdedFor = 128
	// asleep is how long a Wait takes that had to sleep, at least.
	asleep = 5 * time.Microsecond
)

// received records a receive. It reports whether it belongs to a flood.
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

// wait records a Wait. It reports whether to park.
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

// slept notes that it had to sleep.
func (f *flood) slept() {
	if f.left > 0 {
		f.sleeps++
	}
}

// crowd ends the parking for a while: a parked loop was kept waiting by other goroutines of its process.
func (f *flood) crowd() {
	if f.left > 0 {
		f.parks, f.crowded = false, crowdedFor
	}
}
