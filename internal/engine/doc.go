// Package engine runs the protocol over a transport: it is the only place where clock, goroutines, transport and the
// pure core meet.
//
// One goroutine, the loop, owns the transport's receive side, all groups and the timers:
//
//	┌──────┐    ┌─────────────┐    ┌──────────────────┐    ┌───────────────────────┐  nothing    ┌───────┐
//	│ poll │ ─► │ packets,    │ ─► │ commands that    │ ─► │ what is due: groups,  │ ──────────► │ sleep │
//	└──────┘    │ NAKs, joins │    │ callers post     │    │ publications, hellos  │ is left     └───────┘
//	   ▲        └─────────────┘    └──────────────────┘    └───────────────────────┘                 │ until a packet,
//	   │                                                               │ more                        │ a deadline or
//	   └───────────────────────────────────────────────────────────────┴─────────────────────────────┘ a caller
//
// and a bus ends so (loop_close.go):
//
//	┌──────┐ Close ┌───────────┐ subscribers have all, ┌──────────┐ replies were ┌──────────┐ the transport ┌──────┐
//	│ runs │ ────► │ lingering │ ────────────────────► │ silenced │ ───────────► │ farewell │ ────────────► │ dead │
//	└──────┘       └───────────┘   or ctx ends         └──────────┘   taken      └──────────┘ is closed     └──────┘
//
// Publications are shared: their callers write and send from their own goroutines under the publication's lock, and the
// loop takes the same lock for NAKs, statuses and timers. Subscriptions read streams with cursors in their user's
// goroutine, or are called by the loop itself.
//
// Read the files in this order: loop.go (the turn), loop_waitpolicy.go and loop_wake.go (how it sleeps, and what wakes
// it), loop_close.go. Publishing: send_publication.go, send_gate.go (the way in), send_departure.go (when a packet
// leaves), send.go (how), send_room.go (waiting for room), send_stall.go. Subscribing: recv_group.go, recv_output.go
// (where a stream's events go), recv_inplace.go (handlers), recv_subscription.go, recv_feed.go and recv_read.go
// (cursors), recv_topics.go and recv_patterns.go (what is wanted), recv_from.go (where it begins). Then stats.go,
// record.go and log_*.go (what users learn), hello.go (other buses).
package engine
