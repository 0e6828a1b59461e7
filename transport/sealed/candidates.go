package sealed

// candidates are senders that have a right mark, and of which no packet was taken. Marks can be
// recorded and sent again, with anything behind them: the cipher of each is kept, so that a flood of
// them takes one derivation of a key for each mark and not for each packet, and leaves the others
// (trials) to senders that are really new. Who has the key, and does not prove who he is where that is
// asked for, remains one. Of more marks than maxCandidates, in one group and with one
// key, the oldest are derived again.
type candidates struct {
	all   map[sender]*known
	names []sender // of all, and of some that are not there any more: a ring once it is full
	next  int      // where the oldest is, of a full ring
}

// maxCandidates bounds them: some 1 KiB each.
const maxCandidates = 1024

func (c *candidates) add(k *known) {
	if c.all == nil {
		c.all = make(map[sender]*known)
	}
	if len(c.names) < maxCandidates {
		c.names = append(c.names, k.name)
	} else {
		delete(c.all, c.names[c.next])
		c.names[c.next] = k.name
		c.next = (c.next + 1) % maxCandidates
	}
	c.all[k.name] = k
}

// drop forgets one: it is known, or will never be.
func (c *candidates) drop(k *known) { delete(c.all, k.name) }

// clear forgets all: the keys have changed.
func (c *candidates) clear() {
	clear(c.all)
	c.names, c.next = c.names[:0], 0
}
