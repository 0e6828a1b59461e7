package reliable

// Leave forgets all streams except ended ones, as if no packet of them had arrived, because no subscription wants them
// any more. It keeps the counters. No output may keep packets (Detached reports false). docs/protocol §4.5.
func (r *Receiver) Leave() {
	for _, st := range r.list {
		st.returnLoans()
	}
	r.Free()
	r.tombstones.drop(func(x formerStream) bool { return x.evicted })
	r.heldUp = nil
}

// Detached reports whether outputs of streams that are over still keep packets.
func (r *Receiver) Detached() bool { return len(r.detached) > 0 }
