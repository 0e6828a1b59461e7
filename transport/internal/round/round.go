// Package round tracks how far a receive queue has been read (transport.Batch.More).
package round

// Round is the round of one queue. Loop only.
type Round struct{ left int }

// EndPoll ends a Poll that has read n trains from a queue and left at most queued there. It reports whether the round
// continues: arrivals during a round belong to the next.
func (r *Round) EndPoll(n, queued int) (more bool) {
	if r.left == 0 || queued == 0 {
		r.left = queued
	} else {
		r.left = max(0, r.left-n)
	}
	return r.left > 0
}
