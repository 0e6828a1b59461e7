package sealed

import "container/list"

// latest has a value for each of the latest senders, at most limit. A sender that is added again becomes the latest.
type latest[V any] struct {
	limit int
	all   map[sender]*list.Element // of order
	order *list.List               // of named[V], the oldest first
}

type named[V any] struct {
	name sender
	v    V
}

func newLatest[V any](limit int) latest[V] {
	return latest[V]{limit: limit, all: make(map[sender]*list.Element), order: list.New()}
}

// get returns the value of a sender, if there is one.
func (l *latest[V]) get(name sender) (v V, ok bool) {
	e := l.all[name]
	if e == nil {
		return v, false
	}
	return e.Value.(named[V]).v, true
}

func (l *latest[V]) add(name sender, v V) {
	if l.drop(name); len(l.all) == l.limit {
		l.drop(l.order.Front().Value.(named[V]).name)
	}
	l.all[name] = l.order.PushBack(named[V]{name, v})
}

// drop removes a sender.
func (l *latest[V]) drop(name sender) {
	if e := l.all[name]; e != nil {
		l.order.Remove(e)
		delete(l.all, name)
	}
}

// clear removes all senders.
func (l *latest[V]) clear() {
	clear(l.all)
	l.order.Init()
}
