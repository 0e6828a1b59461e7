package udp

import (
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/internal/arena"
	"github.com/fanfaremq/fanfare/transport/internal/events"
	"github.com/fanfaremq/fanfare/transport/internal/grace"
	"github.com/fanfaremq/fanfare/transport/internal/lend"
	"github.com/fanfaremq/fanfare/transport/internal/tally"
)

// endpoint is the part of a Transport that all systems share: its configuration, its attachment to the
// network, its counters, and the progress of Close.
type endpoint struct {
	cfg    Config
	limits SocketLimits
	caps   transport.Capabilities
	// at is the current attachment. It is immutable, so that senders, which load it for each train, see a consistent one.
	at atomic.Pointer[attachment]

	events events.Queue
	arena  arena.Arena
	lent   lend.Limit

	closing atomic.Bool  // Close was called: no new operation begins
	ending  atomic.Bool  // leaving is complete: Poll may wait for it
	leaving grace.Period // of Senders that may still use the socket, or the caller's memory: Close waits for them
	done    atomic.Bool  // Poll has reported the end

	mu      sync.Mutex
	senders map[*Sender]struct{} // under mu

	sent     tally.Sent // Replies, and Senders that are closed
	received tally.Received
}

// attachment is the interface and the address that a transport uses.
type attachment struct {
	link
	local netip.AddrPort // source of packets, without a zone
	// gone: the interface is removed or down, so nothing can be sent. The other fields keep their values.
	gone bool
}

// init checks the configuration and finds the interface.
func (e *endpoint) init(cfg Config) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	l, err := findLink(&cfg)
	if err != nil {
		return err
	}
	cfg.PacketSize = min(cfg.packetSize(l.mtu), largestSend)
	e.cfg = cfg
	e.at.Store(&attachment{link: l})
	e.senders = make(map[*Sender]struct{})
	e.caps = transport.Capabilities{
		Name: "udp", Groups: cfg.Groups, MaxPacket: largestSend, PacketSize: cfg.PacketSize,
		MaxTrain: sys.MaxSegments, MaxTrainBytes: sys.MaxTrainBytes, Batch: batch, LendMax: cfg.LendMax,
		// The UDP checksum is always on, and the kernel verifies it unless the network card has, or the packet is from
		// loopback.
		Checked: true,
	}
	e.lent = lend.New(cfg.LendMax, batch, &e.received.LendRefused)
	return nil
}

// link is the interface in use, or the last one.
func (e *endpoint) link() *link { return &e.at.Load().link }

// setLocal records the address of the unicast socket.
func (e *endpoint) setLocal(l link, local netip.AddrPort) {
	e.at.Store(&attachment{link: l, local: netip.AddrPortFrom(local.Addr().Unmap().WithZone(""), local.Port())})
}

// unicastError is the error of opening the unicast socket.
func unicastError(l *link, port int, err error) error {
	return fmt.Errorf("udp: open socket at %v port %d: %w", l.addr, port, noFiles(err))
}

// awaitSenders ends Close: from now on Poll may wait for the Sends that are in progress.
func (e *endpoint) awaitSenders() {
	e.mu.Lock()
	for s := range e.senders {
		e.leaving.Add(&s.section)
	}
	e.mu.Unlock()
	e.ending.Store(true)
}
