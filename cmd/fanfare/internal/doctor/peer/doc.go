// Package peer finds out with a second host what the network between the two does to
// multicast: fanfare doctor -listen answers, fanfare doctor -peer asks.
//
// The asker drives. It sends numbered probes, by multicast and by unicast, and asks the
// listener what came of them; it has the listener send probes, and counts those that come.
// What unicast of the same direction does is the measure for multicast.
//
//	packet.go     the packets, and what came of a row of them
//	listener.go   who answers: its sessions and limits, without a socket
//	listen.go     the listener on its sockets
//	asker.go      who asks: the order of the tests
//	tests.go      the tests
//	verdict.go    what the results mean, as findings
//	igmp.go       queries of IGMP
//	conn*.go      sockets
//
// # A stranger at the listener's socket
//
// A listener sends nothing but a challenge, smaller than the hello that it answers, to
// an address that has not shown that it hears it: everything else must carry the cookie of
// the challenge. To an address that has, and to the group, it sends at most
// bytesPerSecond. It has maxSessions sessions of fixed size (decision 50).
package peer
