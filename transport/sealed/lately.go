package sealed

import "container/list"

// lately has something of each of the senders that were added last, as many as most. A sender that is added again counts anew.
type lately[V any] struct {
	most  int
	all   map[sender]*list.Element // of order
	order *list.List               // of named[V], the oldest first
}

type named[V any] struct {
	name sender
	v    V
}

func newLately[V any](most int) lately[V] {
	return lately[V]{most: most, all: make(map[sender]*list.Element), order: list.New()}
}

// get returns what is kept of a sender, and whether it is there.
func (l *lately[V]) get(name sender) (v V, there bool) {
	e := l.all[name]
	if e == nil {
		return v, false
	}
	return e.Value.(named[V]).v, true
}

func (l *lately[V]) add(name sender, v V) {
	if l.drop(name); len(l.all) == l.most {
		l.drop(l.order.Front().Value.(named[V]).name)
	}
	l.all[name] = l.order.PushBack(named[V]{name, v})
}

// drop forgets one, if it is there.
func (l *lately[V]) drop(name sender) {
	if e := l.all[name]; e != nil {
		l.order.Remove(e)
		delete(l.all, name)
	}
}

// clear forgets all.
func (l *lately[V]) clear() {
	clear(l.all)
	l.order.Init()
}
