package engine

import "time"

// spinAccount decides whether it pays to spin, by what spinning has brought of late. Where there are fewer
// processors than there is to run, a loop that looks for packets takes its processor from who would send
// them, or from another subscriber. Loop only.
//
//	              packets came: + lookFor, less the time it took
//	┌───────┐     none came: less the time it took      ┌──────────┐
//	│ spins │ ─────────────── below 0 ────────────────► │ left out │ ── each leftOut-th time ──┐
//	└───────┘ ◄────────────── 0 or above ────────────── └──────────┘ ◄── to see whether it ────┘
//	                                                                      pays again
type spinAccount struct {
	balance time.Duration // what it has brought, less what it took
	left    int           // times in a row that it was left out
}

const (
	// mostBalance bounds the balance on both sides, so that other times are noticed after some ten spins.
	mostBalance = 10 * lookFor
	// leftOut is how many waits there are to one spin where spinning does not pay.
	leftOut = 16
)

// pays reports whether to spin now. It counts the times that it does not.
func (a *spinAccount) pays() bool {
	if a.balance >= 0 {
		return true
	}
	a.left++
	if a.left < leftOut {
		return false
	}
	a.left = 0
	return true
}

// spun notes how long it was spun, and whether something came: then nobody had to wake the loop. Longer than
// mostLooking is no spinning: the goroutine, or its thread, had to wait for the processor.
func (a *spinAccount) spun(took time.Duration, came bool) {
	a.balance -= min(took, mostLooking)
	if came {
		a.balance += lookFor
	}
	a.balance = min(max(a.balance, -mostBalance), mostBalance)
}
