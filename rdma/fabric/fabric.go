package fabric

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/internal/soft"
)

// Fabric is a subnet.
type Fabric struct {
	cfg Config

	// mu guards the fields below, and all state of switches and ports. Package soft is not called while it is held,
	// because soft calls this package with its own locks held.
	mu       sync.Mutex
	now      time.Duration // virtual time of a stepped fabric
	queue    actions
	seq      uint64
	rng      *rand.Rand
	faults   Faults
	sm       SM
	sa       subnetAdmin
	switches []*Switch
	hosts    []*Host
	ports    []*Port // by LID-1 on InfiniBand, until LIDs change
	byLID    map[rdma.LID]*Port
	byGID    map[rdma.GID]*Port
	nextLID  rdma.LID
	snooped  map[[6]byte][]snooped
	free     []*packet
	trace    []Record
	stats    Stats
	closed   bool

	pump *pump // nil: stepped
}

// Stats counts datagrams.
type Stats struct {
	Sent      uint64 // by queue pairs
	Delivered uint64 // to queue pairs
	// Lost and Duplicated count injected faults.
	Lost, Duplicated uint64
	// NoPath counts datagrams to a group that no switch table has, or to an address that does not exist.
	NoPath uint64
	// PortDown counts datagrams sent from or to a port that was down.
	PortDown uint64
}

// New returns a fabric without hosts.
func New(cfg Config) *Fabric {
	cfg = cfg.withDefaults()
	f := &Fabric{
		cfg: cfg, faults: cfg.Faults, sm: cfg.SM,
		rng:   rand.New(rand.NewPCG(cfg.Seed, 0x52444d41)),
		byLID: map[rdma.LID]*Port{}, byGID: map[rdma.GID]*Port{}, nextLID: 1,
		snooped: map[[6]byte][]snooped{},
	}
	for i := range cfg.Switches {
		f.switches = append(f.switches, newSwitch(f, i))
	}
	if cfg.Flavor == InfiniBand {
		f.sa.init(f)
	}
	if cfg.Live {
		f.pump = startPump(f)
	}
	return f
}

// Flavor returns the flavor of the fabric.
func (f *Fabric) Flavor() Flavor { return f.cfg.Flavor }

// Close ends a live fabric's goroutine; nothing is delivered afterwards. Objects of the hosts can still be closed. A
// second call has no effect.
func (f *Fabric) Close() error {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	if f.pump != nil {
		f.pump.stop()
	}
	return nil
}

// time returns the current time. The caller holds mu.
func (f *Fabric) time() time.Duration {
	if f.pump != nil {
		return f.cfg.Clock()
	}
	return f.now
}

// Now returns the fabric's time.
func (f *Fabric) Now() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.time()
}

// NextDeadline returns the time of the next event, or false if none is scheduled.
func (f *Fabric) NextDeadline() (time.Duration, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.next()
}

// Step advances a stepped fabric to its next event and executes it. It reports whether there was one. On a live fabric
// it has no effect.
func (f *Fabric) Step() bool {
	if f.pump != nil {
		return false
	}
	at, ok := f.NextDeadline()
	return ok && f.runDue(at)
}

// AdvanceTo executes all events until t in order, and sets the time of a stepped fabric to t. It has no effect if t has
// passed.
func (f *Fabric) AdvanceTo(t time.Duration) {
	if f.pump != nil {
		return
	}
	for f.runDue(t) {
	}
	f.mu.Lock()
	f.now = max(f.now, t)
	f.mu.Unlock()
}

// Stats returns the counters since New.
func (f *Fabric) Stats() Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stats
}

// SetFaults replaces the faults.
func (f *Fabric) SetFaults(faults Faults) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = faults
}

// AddHost connects a host. With an impossible configuration (RateGbps) its devices cannot be opened:
// opening them returns EINVAL, with the reason.
func (f *Fabric) AddHost(cfg HostConfig) *Host {
	f.mu.Lock()
	if cfg.Name == "" {
		cfg.Name = fmt.Sprintf("h%d", len(f.hosts))
	}
	if cfg.RateGbps == 0 {
		cfg.RateGbps = defaultRate
	}
	err := cfg.check()
	if cfg.Switch == 0 && len(f.switches) > 1 {
		cfg.Switch = 1 + len(f.hosts)%(len(f.switches)-1)
	}
	h := &Host{f: f, cfg: cfg, err: err, soft: soft.NewHost(soft.HostConfig{Provider: "fabric", Privileged: cfg.Privileged})}
	f.hosts = append(f.hosts, h)
	f.mu.Unlock()
	for i := range max(cfg.Devices, 1) {
		h.addDevice(i)
	}
	return h
}
