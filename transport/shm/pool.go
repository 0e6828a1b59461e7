package shm

import "slices"

// pool is the chunks of a memory file: the readers of each chunk, and how many more chunks an endpoint
// may hold. The owner's lock guards it.
//
// The chunk that was freed last is filled next, since it is warm in the cache.
type pool struct {
	refs  [maxChunks]uint32
	freed []uint32
	fresh int // chunks from here on were never used
	lack  int // chunks of those that there is no memory for
	owned int // chunks that windows have, and need others for while they are read
}

// take returns a chunk with one reference, the taker's. There may be none.
func (p *pool) take() (chunk uint32, ok bool) {
	if n := len(p.freed); n > 0 {
		chunk, p.freed = p.freed[n-1], p.freed[:n-1]
	} else if p.fresh < maxChunks {
		chunk = uint32(p.fresh)
		p.fresh++
	} else {
		return 0, false
	}
	p.refs[chunk] = 1
	return chunk, true
}

// takeRow returns that many chunks one behind the other, never used, for windows, which get no
// more than a quarter of all.
func (p *pool) takeRow(n int) (first uint32, ok bool) {
	if n > p.left() || p.fresh+n > maxChunks || p.owned+n > p.max()/4 {
		return 0, false
	}
	first = uint32(p.fresh)
	for range n {
		p.refs[p.fresh] = 1
		p.fresh++
	}
	p.owned += n
	return first, true
}

// swap puts a chunk that was taken at the end of the queue, and takes one that fits, if there is one.
func (p *pool) swap(chunk uint32, fits func(chunk uint32) bool) (other uint32, ok bool) {
	p.refs[chunk] = 0
	p.freed = slices.Insert(p.freed, 0, chunk)
	i := slices.IndexFunc(p.freed, fits)
	if i < 0 {
		return 0, false
	}
	other = p.freed[i]
	p.freed = slices.Delete(p.freed, i, i+1)
	p.refs[other] = 1
	return other, true
}

func (p *pool) hold(chunk uint32) { p.refs[chunk]++ }

// drop gives up one reference.
func (p *pool) drop(chunk uint32) {
	if p.refs[chunk]--; p.refs[chunk] == 0 {
		p.freed = append(p.freed, chunk)
	}
}

// room records how many more chunks there is memory for.
func (p *pool) room(chunks int) { p.lack = max(0, maxChunks-p.fresh-chunks) }

// left is how many chunks are free.
func (p *pool) left() int { return len(p.freed) + maxChunks - p.fresh - p.lack }

// max is how many chunks there is memory for.
func (p *pool) max() int { return maxChunks - p.lack }

// admits reports whether a reader of a train, one of so many, which holds out trains and may hold depth, is
// lent another: when chunks are scarce, less than a quarter of those that there is memory for, no reader gets
// more than an equal share of that, and each gets one. So readers that stop, whatever their number, never take
// all, and one that reads is never left out.
func (p *pool) admits(out, depth, readers int) bool {
	scarce := p.max() / 4
	return out < depth && (p.left()-p.owned > scarce || out < max(1, scarce/readers))
}
