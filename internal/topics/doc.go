// Package topics is the message layer: it turns the events of one stream of package reliable, which are packets,
// gaps and totals in order, into messages and gaps of the topics that a subscription wants.
//
// A Reader keeps a Track for each of these topics:
//
//	             Want             its first message, or a total
//	┌────────┐ ──────► ┌─────────┐ ───────────────────────────► ┌───────┐ ──┐ the next number, or a
//	│ absent │         │ unknown │                              │ known │ ◄─┘ higher one: a gap before it
//	└────────┘ ◄────── └─────────┘ ◄─────────────────────────── └───────┘
//	             Drop      │ ▲       the state round has ended      │
//	                       │ │ trusted again                        │ not trusted
//	                       ▼ │                                      │
//	                   ┌─────────┐ ◄────────────────────────────────┘
//	                   │ refused │
//	                   └─────────┘
//
// unknown: the number of its next message is not known. Nothing is missing before its first message, except where
// packets were lost or the topic begins with a given number (From). known: a number that is too high is a gap of
// exactly so many messages; a topic of a stream that is read from its first packet on is known at once, with number 0.
// refused: its publisher may not publish on it, and its messages are only counted.
//
// Read the files in this order: item.go and track.go (the types), reader.go (from event to item), runs.go (the fast
// ways for handlers and cursors), fragments.go (messages of many packets), numbers.go and guard.go (what numbers and
// totals show to be lost), start.go (topics that begin with a given number), unnamed.go (messages of topics without a
// name yet), state.go (the state that a stream begins with), trust.go, faults.go and tally.go (what is not delivered).
// lister.go stands beside them: a Lister learns which topics are published, without a stream.
//
// The package is pure, as reliable is. A Reader belongs to one goroutine: that of the loop for handlers, the user's
// for Next and Messages.
package topics
