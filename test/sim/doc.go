// Package sim runs Fanfare's protocol core in virtual time: publishers and subscribers over a network that loses,
// duplicates, reorders, delays and cuts off, and that an attacker may share. One seed draws every option and every
// fault, so a run is repeated exactly from its number.
//
// A run has two phases. In the first, faults happen as drawn, and what is delivered is checked all the time: order, no
// duplicates, every byte, and every missing message named by one gap (feed.go). In the second the network is sound, and
// all that is left must drain within a bound of virtual time.
//
// Publishers may share an identity, in lives of any epochs: each live one must be received by
// each subscriber, and one with a stream that was removed continues where it stood.
//
// The checkers know the truth from the packets that publishers hand to the
// network (truth.go); they share no state with the code under test.
//
//	options.go     what a run consists of; draw.go draws it from a seed
//	run.go         the loop; queue.go the events in order of virtual time
//	network.go     the way of a packet; legs.go of one on a second network
//	publisher.go   a reliable.Sender with a workload (workload.go)
//	subscriber.go  a reliable.Receiver with its readers (feed.go)
//	node.go        what both share: a clock and a timer
//	attacker.go    packets that no publisher or subscriber of the run has sent
//	trust.go       publishers that prove their identity
//	report.go      the results
//
// Buses that are configured differently are a world of their own (hello.go), with greeters only.
package sim
