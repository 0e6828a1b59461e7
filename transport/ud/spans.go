package ud

import "slices"

// pageBytes is the unit to which Alloc rounds up. On systems with larger pages memory of Alloc may begin within a page.
const pageBytes = 4096

// spans are the free parts of a region, sorted by offset; no two are adjacent.
type spans []span

type span struct{ off, n int }

// alloc allocates n bytes from the first part that is large enough.
func (s *spans) alloc(n int) (off int, ok bool) {
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

// give frees n bytes at off, and merges them with adjacent parts.
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
