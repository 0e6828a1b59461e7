package shm

// pool is the chunks of a memory file: who still reads each, and how many more an endpoint
// may hold. It is under the lock of its owner.
//
// The chunk that was freed last is filled next, since it is warm in the cache.
type pool struct {
	refs  [maxChunks]uint16
	freed []uint32
	fresh uint32 // chunks from here on were never used
}

// take returns a chunk with one reference, the taker's. There may be none.
func (p *pool) take() (chunk uint32, ok bool) {
	if n := len(p.freed); n > 0 {
		chunk, p.freed = p.freed[n-1], p.freed[:n-1]
	} else if p.fresh < maxChunks {
		chunk = p.fresh
		p.fresh++
	} else {
		return 0, false
	}
	p.refs[chunk] = 1
	return chunk, true
}

func (p *pool) hold(chunk uint32) { p.refs[chunk]++ }

// drop gives up one reference.
func (p *pool) drop(chunk uint32) {
	if p.refs[chunk]--; p.refs[chunk] == 0 {
		p.freed = append(p.freed, chunk)
	}
}

// left is how many chunks are free.
func (p *pool) left() int { return len(p.freed) + maxChunks - int(p.fresh) }

// scarce is how many chunks are kept for those that read in time: a quarter.
const scarce = maxChunks / 4

// admits reports whether one of so many readers, which holds out trains and may hold depth,
// is given another: when chunks are scarce no reader gets more than an equal share of what is
// kept. So readers that stop, however many they are, never take all.
func (p *pool) admits(out, depth, readers int) bool {
	return out < depth && (p.left() > scarce || out < scarce/readers)
}
