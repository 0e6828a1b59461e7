// Package sys is what the datapaths of this module ask of the operating system: memory that the garbage
// collector neither scans nor moves (Alloc), network interfaces (FindInterface), and of the Linux
// kernel UDP sockets and their options, packets received and sent in batches (recvmmsg(2), sendmmsg(2))
// and as trains (udp(7): UDP_SEGMENT, UDP_GRO), waiting for sockets (epoll(7), eventfd(2),
// timerfd_create(2)), and changes of network interfaces (rtnetlink(7)).
//
// Package net has each of these for one packet and one goroutine at a time. Here a call takes or
// returns many packets, allocates nothing, and does not block unless documented.
//
// Sockets are plain descriptors. Errors of functions that set something up are *os.SyscallError, with the name of the
// call or the socket option before the errno; those that are called for packets return the errno itself.
package sys

const (
	// MaxSegments is how many packets a train may have: UDP_MAX_SEGMENTS in
	// include/linux/udp.h (128 since Linux 6.9; 64 works on all).
	MaxSegments = 64
	// MaxTrainBytes is the largest train, which is the largest UDP payload over IPv4: 65535 bytes less 28 of headers.
	MaxTrainBytes = 65507
)
