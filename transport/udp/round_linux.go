//go:build !fanfare_plainudp

package udp

import "github.com/fanfaremq/fanfare/internal/sys"

// round tracks how much of the packets that were in the sockets when a round began has been read
// (transport.Batch.More). Loop only.
//
//	Poll ─► starts ─► epoll returns the readable sockets ─► each is read until empty, or as far as it was full ─► ends
type round struct {
	number uint32
	open   bool
	polled bool // epoll has reported all ready sockets, just before the round began or since
	left   int  // sockets that may have unread packets of the round
}

// share is the part of a round in one socket.
type share struct {
	round  uint32
	unread int // upper bound in bytes as charged by the kernel; unknown: not read in this round
}

const unknown = -1

// begin begins a round, unless one is in progress. ready are the sockets to be read.
func (r *round) begin(ready []*socket) {
	if r.open {
		return
	}
	polled := r.polled
	*r = round{number: r.number + 1, open: true}
	for _, s := range ready {
		r.add(s)
	}
	r.polled = polled
}

// drop ends the round early: epoll must report all sockets again.
func (r *round) drop() { r.open, r.polled = false, false }

// add records a ready socket, if its packets may have arrived before the round began.
func (r *round) add(s *socket) {
	if r.open && !r.polled && s.share.round != r.number {
		s.share = share{r.number, unknown}
		r.left++
	}
}

// read records a receive from a socket: charge is its minimum charge in bytes; all: the socket is empty.
func (r *round) read(s *socket, charge int, all bool) {
	x := &s.share
	switch {
	case x.round != r.number || x.unread == 0:
		return
	case all:
		x.unread = 0
	case x.unread == unknown:
		x.unread = sys.Unread(s.fd)
	default:
		x.unread = max(0, x.unread-charge)
	}
	if x.unread == 0 {
		r.left--
	}
}

// more ends a Poll, and reports whether the round continues.
func (r *round) more() bool {
	if r.polled && r.left == 0 {
		r.drop()
	}
	return r.open
}
