package engine

import "sync"

// siblings is what the loops of one bus have in common. Nothing of it is used for a message.
type siblings struct {
	loops     []*Loop        // fixed before they run
	lingering sync.WaitGroup // those whose publications have not lingered yet
	besides   besides
	recent    recentEvents
	told      toldOnce
	refused   sharedRefused
	presences presences
	unheard   unheard
}

// add adds a loop.
func (x *siblings) add(l *Loop) {
	x.loops = append(x.loops, l)
	x.lingering.Add(1)
}

// toldOnce remembers what was told, so that several loops tell it once.
type toldOnce struct {
	mu  sync.Mutex
	all map[any]bool // under mu: of mostTold at most
}

// mostTold bounds what is remembered: beyond, something may be told again.
const mostTold = 256

// first reports whether key was not told yet, and notes it.
func (x *toldOnce) first(key any) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.all[key] {
		return false
	}
	if x.all == nil || len(x.all) >= mostTold {
		x.all = make(map[any]bool)
	}
	x.all[key] = true
	return true
}

// greets returns the hellos of the first loop, which announce what all loops publish.
func (l *Loop) greets() *hellos { return l.siblings.loops[0].hellos }

// publishes reports whether the bus publishes anything.
func (l *Loop) publishes() bool {
	for _, x := range l.siblings.loops {
		if len(x.publications()) > 0 {
			return true
		}
	}
	return false
}

// inHandler reports whether the caller is in a handler of the bus, or in OnEvent: of any loop,
// for another one may be waiting for what this handler holds.
func (l *Loop) inHandler() bool {
	for _, x := range l.siblings.loops {
		if x.watchdog.within() {
			return true
		}
	}
	return false
}
