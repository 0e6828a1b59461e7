// Package peer finds out with a second host what the network between the two does to
// multicast: fanfare doctor -listen answers, fanfare doctor -peer asks.
//
// The asker drives. It sends numbered probes, by multicast and by unicast, and asks the
// listener what came of them; it has the listener send probes, and counts those that come.
// What unicast of the same direction does is the measure for multicast.
//
// # A stranger at the listener's socket
//
// A listener sends nothing but a challenge, smaller than the hello that it answers, to
// an address that has not shown that it hears it: everything else must carry the cookie of
// the challenge. To an address that has, and to the group, it sends at most
// bytesPerSecond. It has maxSessions sessions of fixed size (decision 50).
package peer
