package sealed

// lately has something of each of the senders that were added last, as many as most. A sender that is added again counts anew.
type lately[V any] struct {
	most  int
	all   map[sender]placed[V]
	names []sender // of all, and of some that are not there any more: a ring once it is full
	next  int      // where the oldest is, of a full ring
}

// placed is what is kept of one, and where its name is in the ring.
type placed[V any] struct {
	v  V
	at int
}

func newLately[V any](most int) lately[V] {
	return lately[V]{most: most, all: make(map[sender]placed[V])}
}

// get returns what is kept of a sender, and whether it is there.
func (l *lately[V]) get(name sender) (V, bool) {
	x, there := l.all[name]
	return x.v, there
}

func (l *lately[V]) add(name sender, v V) {
	at := len(l.names)
	if at < l.most {
		l.names = append(l.names, name)
	} else {
		at = l.next
		if old := l.names[at]; l.all[old].at == at {
			delete(l.all, old)
		}
		l.names[at] = name
		l.next = (at + 1) % l.most
	}
	l.all[name] = placed[V]{v, at}
}

// drop forgets one.
func (l *lately[V]) drop(name sender) { delete(l.all, name) }

// clear forgets all.
func (l *lately[V]) clear() {
	clear(l.all)
	l.names, l.next = l.names[:0], 0
}
