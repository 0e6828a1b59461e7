// Package sim runs the engine, the message layer and the protocol core in virtual time: publishers and subscribers over
// a network that loses, duplicates, reorders, delays and cuts off packets, perhaps with an attacker. All options and
// faults are drawn from a seed, so each run can be repeated exactly.
//
// A run has two phases. During the first the network has the drawn faults, and all deliveries are checked: order, no
// duplicates, every byte, and exactly one gap for each missing message (feed.go). In the second phase the network is
// sound, and everything must be delivered within a limit of virtual time.
//
// Publishers may share an identity, in lives with any epochs: each subscriber must receive each live one, and a stream
// that was removed continues where it stopped.
//
// The checkers derive the expected results from the packets that publishers pass to the network (truth.go). They share
// no state with the code under test.
//
//	options.go     options of a run; draw.go draws them from a seed
//	run.go         the main loop; queue.go the queue of events in virtual time
//	network.go     the path of a packet; legs.go a second network
//	process.go     a loop of the engine in virtual time, over the network (endpoint.go)
//	publisher.go   a process with a publication and a workload (workload.go)
//	subscriber.go  a process with subscriptions (reader.go, feed.go)
//	attacker.go    packets that no publisher or subscriber of the run has sent
//	trust.go       publishers that prove their identity
//	completion.go  the end of a run
//	report.go      the results
//
// Buses with different configurations have a simulation of their own (hello.go), with greeters only.
package sim
