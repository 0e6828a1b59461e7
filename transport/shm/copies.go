package shm

import "github.com/fanfaremq/fanfare/internal/sys"

// copies is memory for copies of trains from other users' files, at most as many as are lent at a time. Loop only.
type copies struct {
	mem  []byte
	open []uint32 // without a user
	lent []bool
	max  int
}

// newCopies says how many there may be.
func newCopies(most int) copies { return copies{max: most} }

// take returns one. The memory costs nothing until it is written.
func (c *copies) take() (i uint32, err error) {
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

// memory is the first bytes of one.
func (c *copies) memory(i uint32, bytes int) []byte {
	at := int(i) * chunkBytes
	return c.mem[at : at+bytes : at+bytes]
}

// put gives one back. It panics when it was given back before.
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
