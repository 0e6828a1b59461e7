// Package sealed is a transport over any other one that encrypts and authenticates each packet, of every type, with
// keys that all members share. Without a key an attacker sees neither topics nor messages, and nothing that it sends,
// changes or replays is delivered. A sealed packet is longer than its contents by Overhead: the attacker sees the
// sizes of messages that are alone in their packets, unless they are padded (pubsub.Config.Pad). docs/protocol §27
// defines the format, docs/security.md the guarantees.
//
//	Send  ─► seal: each packet into memory of this package, in one pass ─► inner Send
//	Reply ─► seal ─► inner Reply
//	inner Poll ─► open: cheap checks, decryption in place ─► trains of what verified ─► Poll
//
// A train with a packet that does not open is lent as several, without it.
//
// It seals above legs: all legs carry the same bytes, and the copies of the legs are distinguished from replayed
// packets (each counter is accepted once per leg).
package sealed

import (
	"cmp"
	crand "crypto/rand"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/internal/grace"
	"github.com/fanfaremq/fanfare/transport/internal/lend"
	"github.com/fanfaremq/fanfare/transport/internal/tally"
)

// Config of a sealed transport.
type Config struct {
	// Keys provides the keys for sealing and opening. It is required.
	Keys Provider
	// Skew is the maximum difference between the clocks of two hosts, including the delay of packets: packets with a time
	// that differs more from this host's are refused. Whole seconds. Default DefaultSkew.
	Skew time.Duration
	// MaxSenders bounds the known senders, each one publisher in one group, and separately those of replies: about 3 KiB
	// each, plus 2 KiB for each leg but the first. The bound applies to each key separately, so that there is room for all
	// senders when keys are rotated, and each host has a share. Default 16384.
	MaxSenders int
	// Proven: the user of the transport verifies the publisher of each packet to a group, recognizes repeats, and calls
	// transport.Prover.Proven. Then counters of groups are not checked, only Proven makes a sender known, and each signer
	// has a share of the memory.
	Proven bool
	// Closed is called when Poll has reported the end of the transport, to close the Provider of the keys. May be nil.
	Closed func()

	// Random provides salts, and bytes that make nonces differ after a copy of memory. It must be crypto/rand.Reader, the
	// default, except in tests: a buffered reader would be copied with the memory.
	Random io.Reader
	// Now is the time of day. Default time.Now.
	Now func() time.Time
}

// DefaultSkew is how far apart the clocks of two hosts may be.
const DefaultSkew = 5 * time.Minute

func (c Config) withDefaults() Config {
	c.Skew = cmp.Or(c.Skew, DefaultSkew)
	c.MaxSenders = cmp.Or(c.MaxSenders, 16384)
	if c.Random == nil {
		c.Random = crand.Reader
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Transport is a transport that seals. See package transport for which goroutine may call which method.
type Transport struct {
	inner   transport.Transport
	cfg     Config
	closing atomic.Bool  // Close was called
	ending  atomic.Bool  // leaving is complete: Poll may wait for it
	leaving grace.Period // senders that may be sealing
	ended   atomic.Bool  // Poll has reported the end

	// Loop only, from here.
	opener *opener
	batch  transport.Batch // of the inner transport
	trains []transport.Train
	at     splitting // in batch
	leases leases
	unread transport.Unread // of inner, by the time since began; any goroutine may call it
	began  time.Time
	copies bool // trains of inner are read-only
	lent   lend.Limit
	reply  *sealer
	out    []byte // the reply being sealed

	replies struct {
		sync.Mutex
		*opener // under the mutex, because publishers read replies, too
	}
	notices notices

	mu      sync.Mutex
	senders map[*Sender]struct{} // under mu
	sent    tally.Sent           // by closed Senders, and replies
	left    [][]byte             // under mu: memory of closed Senders, to be freed at the end

	received tally.Received
	refused  [numVerdicts]atomic.Uint64
	unsent   atomic.Uint64
	known    [2]atomic.Uint64 // senders of groups, and of replies
}

// New returns a transport that seals the packets of inner. From then on only the returned transport may be used. It is
// a transport.Legged if inner is one. It returns an error if the configuration is invalid or the packets of inner are
// too small.
func New(inner transport.Transport, cfg Config) (transport.Transport, error) {
	if cfg.Keys == nil {
		return nil, fmt.Errorf("sealed: no keys are given")
	}
	if cfg.Skew < 0 || cfg.Skew%time.Second != 0 || cfg.MaxSenders < 0 {
		return nil, fmt.Errorf("sealed: a skew of %v and %d senders: both must not be negative, and the skew must have whole seconds", cfg.Skew, cfg.MaxSenders)
	}
	caps := inner.Capabilities()
	if caps.MaxPacket <= Overhead || caps.PacketSize <= Overhead {
		return nil, fmt.Errorf("sealed: packets of %d bytes are too small: sealing takes %d of each", caps.PacketSize, Overhead)
	}
	cfg = cfg.withDefaults()
	t := &Transport{
		inner: inner, cfg: cfg, copies: caps.ReadOnly, opener: newOpener(&cfg), reply: newSealer(unicastIndex, cfg.Random),
		trains: make([]transport.Train, max(1, caps.Batch)), out: make([]byte, caps.MaxPacket),
		senders: make(map[*Sender]struct{}), began: cfg.Now(),
	}
	t.opener.from, cfg.Proven = t.polledFrom, false
	t.replies.opener = newOpener(&cfg)
	t.lent = lend.New(caps.LendMax, caps.Batch, &t.received.LendRefused)
	if l, ok := inner.(transport.Legged); ok {
		return legged{t, l}, nil
	}
	return t, nil
}

// legged is a sealed transport over legs.
type legged struct {
	*Transport
	inner transport.Legged
}

var _ transport.Legged = legged{}

func (l legged) LegAddress(leg, group int) string        { return l.inner.LegAddress(leg, group) }
func (t *Transport) GroupAddress(group int) string       { return t.inner.GroupAddress(group) }
func (t *Transport) Alloc(bytes int) ([]byte, error)     { return t.inner.Alloc(bytes) }
func (t *Transport) Free(mem []byte)                     { t.inner.Free(mem) }
func (t *Transport) Join(group int) error                { return t.inner.Join(group) }
func (t *Transport) Leave(group int) error               { return t.inner.Leave(group) }
func (t *Transport) Forget(p transport.Peer)             { t.inner.Forget(p) }
func (t *Transport) Wake()                               { t.inner.Wake() }
func (t *Transport) PeerAddress(p transport.Peer) string { return t.inner.PeerAddress(p) }

// Inner is the wrapped transport, for methods of its type beyond the contract.
func (t *Transport) Inner() transport.Transport { return t.inner }

// Capabilities implements transport.Transport: packets are shorter by Overhead, and none arrives damaged.
func (t *Transport) Capabilities() transport.Capabilities {
	c := t.inner.Capabilities()
	c.Name = "sealed " + c.Name
	// Number of full packets of a train. A single packet may use all bytes of a train, so MaxTrainBytes alone does not
	// bound the number of packets.
	full := max(1, c.MaxTrainBytes/c.PacketSize)
	c.MaxTrainBytes = max(c.MaxTrainBytes-full*Overhead, c.MaxPacket-Overhead)
	c.MaxPacket -= Overhead
	c.PacketSize -= Overhead
	c.MaxTrain = min(c.MaxTrain, full, maxTrain)
	c.SealOverhead = Overhead
	c.Checked, c.PeersUnchecked, c.ReadOnly = true, false, false
	return c
}

// Stats implements transport.Transport. Packets and bytes are those before sealing, or after opening; the other
// counters are the inner transport's.
func (t *Transport) Stats() transport.Stats {
	s := t.inner.Stats()
	s.PacketsSent, s.BytesSent, s.SendCalls, s.SendBusy, s.SendErrors = 0, 0, 0, 0, 0
	s.PacketsReceived, s.BytesReceived, s.LendRefused = 0, 0, 0
	t.received.AddTo(&s.Transport)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent.AddTo(&s.Transport)
	for x := range t.senders {
		x.sent.AddTo(&s.Transport)
	}
	s.Seal = stats.Seal{Senders: t.known[0].Load() + t.known[1].Load(), Unsealed: t.unsent.Load()}
	for v := range t.refused {
		verdict(v).count(&s.Seal, t.refused[v].Load())
	}
	return s
}

// Wait implements transport.Transport.
func (t *Transport) Wait(timeout time.Duration) error {
	if !t.closing.Load() && (t.at.more(len(t.batch.Trains)) && !t.lent.Full() || t.notices.pending()) {
		return nil
	}
	begun := t.cfg.Now()
	err := t.inner.Wait(timeout)
	t.unread.Waited(t.cfg.Now().Sub(begun), timeout)
	return err
}

// Close implements transport.Transport.
func (t *Transport) Close() error {
	if t.closing.Swap(true) {
		return nil
	}
	t.mu.Lock()
	for s := range t.senders {
		t.leaving.Add(&s.section)
	}
	t.mu.Unlock()
	t.ending.Store(true)
	return t.inner.Close()
}

var errClosed = fmt.Errorf("sealed: %w", net.ErrClosed)
