package sim

import "github.com/fanfaremq/fanfare/reliable"

// thisStay is what the checks know of a subscriber's present stay only.
type thisStay struct {
	evicted  map[int]bool    // readers, by number
	executed map[uint64]bool // requests, by key of the message
	legs     heardByLegs
	namesBy  reliable.Instant // when patterns begin at the latest; 0: none has waited for names
}

func newStay() thisStay {
	return thisStay{evicted: make(map[int]bool), executed: make(map[uint64]bool)}
}
