package cli

import "sync"

// vanished are the subscribers that pub has given up as silent, but for those that were heard
// again: these count by what they say they have.
type vanished struct {
	mu  sync.Mutex
	ids map[uint64]struct{} // under mu
}

func (v *vanished) went(id uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ids == nil {
		v.ids = make(map[uint64]struct{})
	}
	v.ids[id] = struct{}{}
}

func (v *vanished) cameBack(id uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.ids, id)
}

func (v *vanished) count() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return uint64(len(v.ids))
}
