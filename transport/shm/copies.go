package shm

import "github.com/fanfaremq/fanfare/internal/sys"

// copies is memory for copies of trains from other users' files. Loop only.
type copies struct {
	mem  []byte
	open []uint32 // free copies
	lent []bool
	max  int
}

// newCopies returns memory for up to max copies.
func newCopies(max int) copies { return copies{max: max} }

// alloc returns a free copy. Its memory is not allocated until it is written.
func (c *copies) alloc() (i uint32, err error) {
	if c.mem == nil {
		if c.mem, err = sys.Alloc(c.max * chunkBytes); err != nil {
			return 0, err
		}
		c.lent = make([]bool, c.max)
		for i := range c.max {
			c.open = append(c.open, uint32(c.max-1-i))
		}
	}
	n := len(c.open) - 1
	i, c.open = c.open[n], c.open[:n]
	c.lent[i] = true
	return i, nil
}

// memory is the first bytes of a copy.
func (c *copies) memory(i uint32, bytes int) []byte {
	at := int(i) * chunkBytes
	return c.mem[at : at+bytes : at+bytes]
}

// put returns a copy. It panics if the copy is free.
func (c *copies) put(i uint32) {
	if int(i) >= len(c.lent) || !c.lent[i] {
		panic("shm: train released twice, or never lent")
	}
	c.lent[i] = false
	c.open = append(c.open, i)
}

func (c *copies) free() {
	sys.Free(c.mem)
	c.mem = nil
}
