// Package events keeps membership events that a transport has not reported yet.
package events

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/fanfaremq/fanfare/transport"
)

// Queue holds events between the call that causes them and the Poll that reports them. Its length is
// bounded by the number of calls of Join, Leave, NewSender and Sender.Close between two Polls, and of
// changes that a Poll itself has found. Any goroutine may call its methods.
type Queue struct {
	any     atomic.Bool // Poll looks here first, so that it takes no lock
	mu      sync.Mutex
	pending []transport.Event
	senders map[int]int // group -> open senders
	away    bool        // between SendersLost and SendersJoined
}

// Post adds an event.
func (q *Queue) Post(ev transport.Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.post(ev)
}

func (q *Queue) post(ev transport.Event) {
	q.pending = append(q.pending, ev)
	q.any.Store(true)
}

// SenderOpened counts a sender of group. Only the first one is reported: a group's membership as a sender belongs to
// the transport, however many senders it has. After SendersLost, SendersJoined reports it.
func (q *Queue) SenderOpened(group int) (first bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.senders == nil {
		q.senders = make(map[int]int)
	}
	q.senders[group]++
	if q.senders[group] > 1 || q.away {
		return false
	}
	q.post(transport.Event{Group: group, Role: transport.RoleSender, State: transport.Joined})
	return true
}

// SenderClosed counts the end of a sender of group; only the last one is reported.
func (q *Queue) SenderClosed(group int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.senders[group]--
	if q.senders[group] == 0 {
		delete(q.senders, group)
		q.post(transport.Event{Group: group, Role: transport.RoleSender, State: transport.Left})
	}
}

// SendersLost reports each group with a sender as lost, with the reason.
func (q *Queue) SendersLost(why error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.away = true
	q.eachSender(transport.Lost, why)
}

// SendersJoined reports each group with a sender as joined again.
func (q *Queue) SendersJoined() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.away = false
	q.eachSender(transport.Joined, nil)
}

func (q *Queue) eachSender(state transport.Membership, why error) {
	for _, group := range slices.Sorted(maps.Keys(q.senders)) {
		q.post(transport.Event{Group: group, Role: transport.RoleSender, State: state, Err: why})
	}
}

// Pending reports whether Take would find something.
func (q *Queue) Pending() bool { return q.any.Load() }

// Take appends pending events to dst up to its capacity.
func (q *Queue) Take(dst []transport.Event) []transport.Event {
	if !q.any.Load() {
		return dst
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(cap(dst)-len(dst), len(q.pending))
	dst = append(dst, q.pending[:n]...)
	q.pending = append(q.pending[:0], q.pending[n:]...)
	q.any.Store(len(q.pending) > 0)
	return dst
}
