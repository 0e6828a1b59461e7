// Package events queues membership events until a Poll reports them.
package events

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/fanfaremq/fanfare/transport"
)

// Queue holds events between the call that causes them and the Poll that reports them. Its length is bounded by the
// number of calls of Join, Leave, NewSender and Sender.Close between two Polls, and of changes found by a Poll. Any
// goroutine may call its methods.
type Queue struct {
	any     atomic.Bool // read first by Poll, to avoid the lock
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

// SenderOpened counts a sender of group, and posts an event for the first one: the membership belongs to the transport,
// however many senders it has. After SendersLost, SendersJoined posts the event instead.
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

// SenderClosed counts the end of a sender of group, and posts an event for the last one.
func (q *Queue) SenderClosed(group int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.senders[group]--
	if q.senders[group] == 0 {
		delete(q.senders, group)
		q.post(transport.Event{Group: group, Role: transport.RoleSender, State: transport.Left})
	}
}

// SendersLost posts that each group with a sender is lost, with the reason.
func (q *Queue) SendersLost(why error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.away = true
	q.eachSender(transport.Lost, why)
}

// SendersJoined posts that each group with a sender is joined again.
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

// Pending reports whether Take would return events.
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
