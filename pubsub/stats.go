package pubsub

import (
	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/transport"
)

// Stats returns a snapshot of all counters. On a closed bus, and in OnEvent of HandlerSlow, it lacks Groups and Legs.
func (b *Bus) Stats() stats.Bus {
	st, _ := b.loop.Stats()
	return st
}

// Capabilities describes what the fabric can do, and which offloads are in use.
func (b *Bus) Capabilities() transport.Capabilities { return b.loop.Capabilities() }
