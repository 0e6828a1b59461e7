package sys

import (
	"bytes"
	"strconv"

	"golang.org/x/sys/unix"
)

// NoRoom counts datagrams that UDP sockets had no room for: those of all sockets of a network
// namespace together. What a socket itself counts as dropped (Drops) is also what its filter
// keeps out.
type NoRoom struct {
	fd    int
	is6   bool
	table [16 << 10]byte // here so that it is not allocated
}

// OpenNoRoom opens the count for the namespace of the calling thread, for IPv4 or IPv6. Where
// it cannot be read it stays 0.
func OpenNoRoom(is6 bool) *NoRoom {
	name := "/proc/thread-self/net/snmp"
	if is6 {
		name += "6"
	}
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		fd = -1
	}
	return &NoRoom{fd: fd, is6: is6}
}

// Count is how many there were since the namespace was made.
func (n *NoRoom) Count() uint64 {
	size, err := unix.Pread(n.fd, n.table[:], 0)
	if err != nil {
		return 0
	}
	if n.is6 {
		return noRoom6(n.table[:size])
	}
	return noRoom4(n.table[:size])
}

// Close ends it.
func (n *NoRoom) Close() {
	if n.fd >= 0 {
		unix.Close(n.fd)
		n.fd = -1
	}
}

// noRoom4 reads RcvbufErrors of /proc/net/snmp, which has a line of names and one of numbers:
//
//	Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors ...
//	Udp: 27943205 6538 468419 23022857 435620 ...
func noRoom4(table []byte) uint64 {
	var names [][]byte
	for line := range bytes.Lines(table) {
		words := bytes.Fields(line)
		switch {
		case len(words) == 0 || string(words[0]) != "Udp:":
		case names == nil:
			names = words
		default:
			for i, name := range names {
				if string(name) == "RcvbufErrors" && i < len(words) {
					return number(words[i])
				}
			}
		}
	}
	return 0
}

// noRoom6 reads Udp6RcvbufErrors of /proc/net/snmp6, which has a line for each.
func noRoom6(table []byte) uint64 {
	for line := range bytes.Lines(table) {
		if words := bytes.Fields(line); len(words) == 2 && string(words[0]) == "Udp6RcvbufErrors" {
			return number(words[1])
		}
	}
	return 0
}

// number is 0 for what is none.
func number(b []byte) uint64 {
	n, _ := strconv.ParseUint(string(b), 10, 64)
	return n
}
