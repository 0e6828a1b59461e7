// Package shm is the fabric between processes of one host, over shared memory (Linux).
//
// An endpoint has one memory file, which it alone writes. Others map it read-only.
//
//	file of A  (A writes, B and C read)                 file of B  (B writes)
//	┌──────────────────────────────────────────┐        ┌─────────────────────┐
//	│ groups joined, asleep?                   │        │ groups, asleep?     │
//	│ lane to B:  ring of descriptors ─────────┼──────► │ returned to A: ring │
//	│ lane to C:  ring of descriptors          │ ◄──────┼──  of positions     │
//	│ chunks:     trains, each written once    │        │ …                   │
//	└──────────────────────────────────────────┘        └─────────────────────┘
//
// The windows of publishers are in chunks. Send puts a descriptor of 16 bytes into the lane to each endpoint that has
// joined the group; a train in other memory is first copied into a free chunk. A reader uses the chunk in place, and
// returns the descriptor's position when the train is released; when all have, the chunk is free. So no chunk is
// overwritten during a read, and a reader that stops in the middle of a packet holds up no other endpoint: it keeps its
// chunks, and packets that do not fit into its lane are lost for it and counted (stats.Transport.ReceiveOverflow).
// docs/protocol §28.
//
// A reader that sleeps sets a flag in its file, and is woken by a byte in its named pipe. Apart from that the path of a
// train has no system call.
//
// A file is locked while its owner lives (flock(2)). New endpoints remove unlocked files. Once a second
// an endpoint checks that new ones can still discover it, and reports it if not.
package shm

import (
	"errors"
	"fmt"
	"net"

	"github.com/fanfaremq/fanfare/transport"
)

// ErrUnsupported: this system has no transport over shared memory.
var ErrUnsupported = errors.New("shm: this transport needs Linux: use mem:// within one process, or udp:// on loopback")

var (
	errClosed = fmt.Errorf("shm: %w", net.ErrClosed)
	errNoPeer = fmt.Errorf("shm: %w", transport.ErrNoPeer)
)
