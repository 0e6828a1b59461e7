package shm

import "slices"

// pool tracks the chunks of a memory file: the number of readers of each, and the free ones. The owner's lock guards
// it.
//
// The chunk that was freed last is filled next, because it is still in the cache.
type pool struct {
	refs     [maxChunks]uint32
	freed    []uint32
	fresh    int // first of the chunks that were never used
	noMemory int // number of never used chunks without memory
	owned    int // chunks of windows, which are replaced by others while they are read
}

// alloc returns a chunk with one reference, the caller's; ok is false if none is free.
func (p *pool) alloc() (chunk uint32, ok bool) {
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

// allocRow returns the first of n consecutive, never used chunks for windows, which get at most a quarter of all.
func (p *pool) allocRow(n int) (first uint32, ok bool) {
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

// swap frees a chunk that was taken, and takes one that fits, if there is one.
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

// drop releases one reference.
func (p *pool) drop(chunk uint32) {
	if p.refs[chunk]--; p.refs[chunk] == 0 {
		p.freed = append(p.freed, chunk)
	}
}

// room records how many more chunks can be allocated.
func (p *pool) room(chunks int) { p.noMemory = max(0, maxChunks-p.fresh-chunks) }

// left is the number of free chunks.
func (p *pool) left() int { return len(p.freed) + maxChunks - p.fresh - p.noMemory }

// max is the number of chunks with memory, allocated or available.
func (p *pool) max() int { return maxChunks - p.noMemory }

// admits reports whether a reader, one of readers of a train, may be lent another train; it holds out trains, and at
// most depth. When less than a quarter of the chunks with memory is free, no reader gets more than an equal share of
// that quarter, and each gets at least one. So stopped readers never hold all chunks, and one that reads always gets
// some.
func (p *pool) admits(out, depth, readers int) bool {
	scarce := p.max() / 4
	return out < depth && (p.left()-p.owned > scarce || out < max(1, scarce/readers))
}
