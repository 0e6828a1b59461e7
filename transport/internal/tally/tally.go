// Package tally has the counters of stats.Transport, which any goroutine may read.
package tally

import (
	"errors"
	"net"
	"sync/atomic"

	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/transport"
)

// Sent counts what one sender sends. Each Sender has its own, so that Senders on different cores do not share a cache
// line.
type Sent struct {
	Packets, Bytes, Calls atomic.Uint64
	Busy                  atomic.Uint64 // calls that found the queue full
	Errors                atomic.Uint64 // packets refused permanently
	NoMemory              atomic.Uint64 // packets without memory for them, counted for each receiver
	GSORefused            atomic.Uint64
}

// AddTo adds the counters to s.
func (c *Sent) AddTo(s *stats.Transport) {
	s.PacketsSent += c.Packets.Load()
	s.BytesSent += c.Bytes.Load()
	s.SendCalls += c.Calls.Load()
	s.SendBusy += c.Busy.Load()
	s.SendErrors += c.Errors.Load()
	s.SendNoMemory += c.NoMemory.Load()
	s.GSORefused += c.GSORefused.Load()
}

// Fold adds the counters of a closed sender.
func (c *Sent) Fold(of *Sent) {
	c.Packets.Add(of.Packets.Load())
	c.Bytes.Add(of.Bytes.Load())
	c.Calls.Add(of.Calls.Load())
	c.Busy.Add(of.Busy.Load())
	c.Errors.Add(of.Errors.Load())
	c.NoMemory.Add(of.NoMemory.Load())
	c.GSORefused.Add(of.GSORefused.Load())
}

// Received counts what a transport receives, and its control plane.
type Received struct {
	Packets, Bytes, Calls       atomic.Uint64
	Overflow, Truncated, Errors atomic.Uint64
	LendRefused                 atomic.Uint64
	PeersRefused                atomic.Uint64
	Joins, JoinsFailed          atomic.Uint64
	Lost                        atomic.Uint64 // memberships
}

// AddTo adds the counters to s.
func (c *Received) AddTo(s *stats.Transport) {
	s.PacketsReceived += c.Packets.Load()
	s.BytesReceived += c.Bytes.Load()
	s.ReceiveCalls += c.Calls.Load()
	s.ReceiveOverflow += c.Overflow.Load()
	s.ReceiveTruncated += c.Truncated.Load()
	s.ReceiveErrors += c.Errors.Load()
	s.LendRefused += c.LendRefused.Load()
	s.PeersRefused += c.PeersRefused.Load()
	s.Joins += c.Joins.Load()
	s.JoinsFailed += c.JoinsFailed.Load()
	s.MembershipsLost += c.Lost.Load()
}

// Count counts the error of a Send, except ErrNotReady and closed, which are not errors of the queue or the network.
func (c *Sent) Count(err error) {
	switch {
	case errors.Is(err, transport.ErrBusy):
		c.Busy.Add(1)
	case !errors.Is(err, net.ErrClosed) && !errors.Is(err, transport.ErrNotReady):
		c.Errors.Add(1)
	}
}

// CountReply counts the error of a Reply if the queue is full. Callers count and report other errors, by peer.
func (c *Sent) CountReply(err error) {
	if errors.Is(err, transport.ErrBusy) {
		c.Busy.Add(1)
	}
}
