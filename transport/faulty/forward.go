package faulty

import (
	"github.com/fanfaremq/fanfare/transport"
)

// Calls that do not concern received packets are passed to the inner transport.

// Capabilities implements transport.Transport.
func (t *Transport) Capabilities() transport.Capabilities {
	c := t.inner.Capabilities()
	c.ReadOnly = c.ReadOnly || t.cfg.Duplicate > 0 // both copies of a packet are the same memory
	return c
}

// GroupAddress implements transport.Transport.
func (t *Transport) GroupAddress(group int) string { return t.inner.GroupAddress(group) }

// Alloc implements transport.Transport.
func (t *Transport) Alloc(bytes int) ([]byte, error) { return t.inner.Alloc(bytes) }

// Free implements transport.Transport.
func (t *Transport) Free(mem []byte) { t.inner.Free(mem) }

// NewSender implements transport.Transport. The sender is not a transport.ReplyReader, because its reads would bypass
// the faults.
func (t *Transport) NewSender(group int) (transport.Sender, error) {
	s, err := t.inner.NewSender(group)
	if err != nil {
		return nil, err
	}
	return sender{s}, nil
}

type sender struct{ transport.Sender }

// Join implements transport.Transport.
func (t *Transport) Join(group int) error { return t.inner.Join(group) }

// Leave implements transport.Transport.
func (t *Transport) Leave(group int) error { return t.inner.Leave(group) }

// Wake implements transport.Transport.
func (t *Transport) Wake() { t.inner.Wake() }

// Reply implements transport.Transport.
func (t *Transport) Reply(p transport.Peer, packet []byte) error { return t.inner.Reply(p, packet) }

// Stats implements transport.Transport: the inner counters, which do not include the faults, and the
// packets dropped here. LendRefused counts the trains that this transport lends.
func (t *Transport) Stats() transport.Stats {
	s := t.inner.Stats()
	if !t.through {
		s.LendRefused = t.lendRefused.Load()
		s.Injected += t.lost.Load()
		s.InjectedDelay += t.held.Load()
	}
	return s
}

// Inner is the wrapped transport, for methods of its type beyond the contract.
func (t *Transport) Inner() transport.Transport { return t.inner }

// Close implements transport.Transport.
func (t *Transport) Close() error {
	t.closing.Store(true)
	return t.inner.Close()
}
