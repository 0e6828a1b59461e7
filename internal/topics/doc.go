// Package topics is the message layer. It turns the events of one stream of package reliable (packets, gaps and
// listings, in order) into messages and gaps of the topics that a subscription wants.
//
// A Reader keeps a Track for each of these topics:
//
//	             Want             its first message or topic run
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
// unknown: the number of the next message is not known. Nothing counts as missing before the first message, unless
// packets were lost or the topic begins with a given number (From). known: a number that is too high is a gap of
// exactly the messages in between. A topic of a stream that is read from its first packet is known at once, with number
// 0. refused: the publisher is not trusted with the topic, and its messages are only counted.
//
// A Receiver and its Streams, one for each of the packet layer's, hold what is wanted of a group and what publishers
// state about their topics: receiver.go (wanted topics, statuses), rounds.go (topic runs, and index rounds after
// losses), names.go (names, for patterns), history.go (how much of the history is needed), joining.go (state).
//
// Read the files of a Reader in this order: track.go (the types), reader.go (from event to item), runs.go (the fast
// ways for handlers and cursors, and messages of many packets), numbers.go (losses that numbers and topic runs show),
// start.go (topics that begin with a given number, or with state), trust.go (what is not delivered). lister.go stands
// alone: a Lister finds out which topics are published, without a stream.
//
// A Sender is the message layer at a publisher: writer.go (messages into the packets of a reliable.Sender), sender.go
// (numbers, when packets get their sequences), topic.go (names of topics), members.go and questions.go (which topics
// members want), indexer.go (index rounds), statesender.go (state), delivered.go (what has arrived).
//
// Requests are messages that receivers reply to, by unicast. requests.go has them at their publisher, responders.go the
// replies that it receives and recalls, and replies.go those that a receiver sends and keeps. Their packets go through
// package reliable unparsed (reliable.SenderControl, reliable.ReceiverControl). compression.go compresses packets, and
// decoder.go decompresses them.
//
// The package is pure, as reliable is. A Reader belongs to one goroutine: for handlers the loop's, for Next and
// Messages the user's.
package topics
