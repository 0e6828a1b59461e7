package ud

import "slices"

// pageBytes is what Alloc rounds up to. Where pages are larger, memory of Alloc begins within one.
const pageBytes = 4096

// spans are the free parts of a region, by offset; no two touch.
type spans []span

type span struct{ off, n int }

// take cuts n bytes from the first part that has them.
func (s *spans) take(n int) (off int, ok bool) {
	for i := range *s {
		p := &(*s)[i]
		if p.n < n {
			continue
		}
		off = p.off
		if p.off, p.n = p.off+n, p.n-n; p.n == 0 {
			*s = slices.Delete(*s, i, i+1)
		}
		return off, true
	}
	return 0, false
}

// give puts back what take gave, and joins it with its neighbours.
func (s *spans) give(off, n int) {
	i, _ := slices.BinarySearchFunc(*s, off, func(p span, off int) int { return p.off - off })
	*s = slices.Insert(*s, i, span{off, n})
	if next := i + 1; next < len(*s) && off+n == (*s)[next].off {
		(*s)[i].n += (*s)[next].n
		*s = slices.Delete(*s, next, next+1)
	}
	if i > 0 && (*s)[i-1].off+(*s)[i-1].n == off {
		(*s)[i-1].n += (*s)[i].n
		*s = slices.Delete(*s, i, i+1)
	}
}
