//go:build !fanfare_plainudp

package udp

import "github.com/fanfaremq/fanfare/internal/sys"

// round is how far what lay in the sockets when a round began has been read (transport.Batch.More). Loop only.
//
//	Poll ─► begins ─► epoll names the sockets that have something ─► each is read empty, or as far as it was filled ─► is over
type round struct {
	number uint32
	open   bool
	asked  bool // epoll has named them all, just before it began or since
	left   int  // sockets of which some may be unread
}

// share is a socket's part of the round of that number.
type share struct {
	round  uint32
	unread int // bytes as the kernel charges them, at most; unknown: it was not read in this round
}

const unknown = -1

// begin begins a round, unless one is in progress. ready are the sockets to be read.
func (r *round) begin(ready []*socket) {
	if r.open {
		return
	}
	asked := r.asked
	*r = round{number: r.number + 1, open: true}
	for _, s := range ready {
		r.add(s)
	}
	r.asked = asked
}

// drop ends it before it is over: all sockets are looked for anew.
func (r *round) drop() { r.open, r.asked = false, false }

// add notes a socket that has something, if that may have lain there when the round began.
func (r *round) add(s *socket) {
	if r.open && !r.asked && s.share.round != r.number {
		s.share = share{r.number, unknown}
		r.left++
	}
}

// read records a receive from a socket: its minimum charge in bytes; all: it had no more.
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
	if r.asked && r.left == 0 {
		r.drop()
	}
	return r.open
}
