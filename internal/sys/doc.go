// Package sys wraps the operating system calls of this module's datapaths: memory that the garbage collector neither
// scans nor moves (Alloc), network interfaces (FindInterface), and on Linux UDP sockets and their options, packets
// received and sent in batches (recvmmsg(2), sendmmsg(2)) and as trains (udp(7): UDP_SEGMENT, UDP_GRO), waiting for
// sockets (epoll(7), eventfd(2), timerfd_create(2)), and changes of network interfaces (rtnetlink(7)).
//
// Package net handles one packet per call. Here a call sends or receives many packets, allocates nothing, and does not
// block unless documented.
//
// Sockets are plain descriptors. Setup functions return *os.SyscallError, with the name of the call or the socket
// option before the errno; functions that send or receive packets return the errno itself.
package sys

const (
	// MaxSegments is the maximum number of packets of a train: UDP_MAX_SEGMENTS in include/linux/udp.h (128 since Linux
	// 6.9; 64 works on all).
	MaxSegments = 64
	// MaxTrainBytes is the maximum size of a train: the largest UDP payload over IPv4, 65535 bytes less 28 of headers.
	MaxTrainBytes = 65507
)
