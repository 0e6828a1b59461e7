// Package engine runs the protocol over a transport. It is the only place where clock, goroutines, transport and the
// pure core meet.
//
// One goroutine, the loop, owns the transport's receive side, all groups and the timers. In each turn it does:
//
//	┌──────┐    ┌─────────────┐    ┌──────────────────┐    ┌───────────────────────┐  nothing    ┌───────┐
//	│ poll │ ─► │ packets,    │ ─► │ commands posted  │ ─► │ what is due: groups,  │ ──────────► │ sleep │
//	└──────┘    │ NAKs, joins │    │ by callers       │    │ publications, hellos  │ left        └───────┘
//	   ▲        └─────────────┘    └──────────────────┘    └───────────────────────┘                 │ until a packet,
//	   │                                                               │ more                        │ a deadline or
//	   └───────────────────────────────────────────────────────────────┴─────────────────────────────┘ a caller
//
// A bus ends in these steps (loop_close.go):
//
//	┌──────┐ Close ┌───────────┐ subscribers have  ┌────────────┐ no requester asks ┌──────────┐ transport ┌──────┐
//	│ runs │ ────► │ lingering │ ────────────────► │ suppressed │ ────────────────► │ farewell │ ────────► │ dead │
//	└──────┘       └───────────┘ all, or ctx ends  └────────────┘ for replies       └──────────┘ closed    └──────┘
//
// Publications are shared: callers write and send on their own goroutines under the publication's lock, and the loop
// takes the same lock for NAKs, statuses and timers. A subscription reads streams with cursors on the user's goroutine,
// or the loop calls its handlers.
//
// In comments "loop only" means that only the loop's goroutine may use a value or call a function, and "under mu" that
// the caller holds mu.
//
// Read the files in this order: loop.go (the turn), loop_waitpolicy.go and loop_wake.go (how it sleeps, and what wakes
// it), loop_close.go, virtual.go (the same without goroutines, in virtual time). Publishing: send_publication.go,
// send_gate.go (the way in), send_departure.go (when a packet leaves), send.go (how), send_room.go (waiting for room),
// send_stall.go. Subscribing: recv_group.go, recv_output.go (where a stream's events go), recv_inplace.go (handlers),
// recv_subscription.go, recv_feed.go and recv_read.go (cursors), recv_topics.go and recv_patterns.go (subscribed
// topics), recv_from.go (where a subscription begins). Then stats.go, record.go and log_*.go (what users see), hello.go
// (other buses).
package engine
