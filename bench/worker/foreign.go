package worker

// Foreign reports what another program has measured in place of this side's
// receivers or publisher: a peer that is not written in Go.
func (r *Run) Foreign(rep Report) { r.foreign = append(r.foreign, rep) }
