package ud

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/internal/lend"
	"github.com/fanfaremq/fanfare/transport/internal/peers"
)

// Open makes an endpoint: ids, queue pair and receive memory. Groups are joined later.
func Open(cfg Config) (*Transport, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	t := &Transport{
		log: cfg.Logger, clock: cfg.Clock, wait: waiter{token: make(chan struct{}, 1)},
		port: portWatch{clock: cfg.Clock},
	}
	t.senders = senders{
		routes: make([]atomic.Pointer[route], cfg.Groups), waiter: &t.wait,
		all: make(map[*Sender]struct{}), inGroup: make(map[int]int),
	}
	if err := t.open(&cfg); err != nil {
		t.abandon()
		return nil, err
	}
	return t, nil
}

func (t *Transport) open(cfg *Config) (err error) {
	v, local := &t.verbs, cfg.Local
	if !local.IsValid() {
		if local, err = findPort(cfg); err != nil {
			return err
		}
	}
	t.local = rdma.IPAddr(local)
	if v.ch, err = cfg.Provider.NewEventChannel(); err != nil {
		return named("open the connection manager", err)
	}
	for _, id := range []*rdma.ID{&v.rx, &v.tx} {
		if *id, err = v.ch.CreateID(rdma.PortSpaceUDP, nil); err != nil {
			return named("create id", err)
		}
		if err = (*id).Bind(t.local); err != nil {
			return fmt.Errorf("ud: bind to %v: %w; give the address of an RDMA port's network interface", local, err)
		}
	}
	dev, err := v.rx.Device()
	if err != nil {
		return named(fmt.Sprintf("find the device of %v", local), err)
	}
	if v.local, err = v.rx.Local(); err != nil {
		return named("find the port's GID", err)
	}
	attr, err := dev.Attr()
	if err != nil {
		return named("query device", err)
	}
	port, err := dev.Port(v.local.Port)
	if err != nil {
		return named("query port", err)
	}
	t.drops.dev, t.drops.port, t.drops.last = dev, v.local.Port, port
	if err = t.port.open(cfg.Provider, attr.Name, v.local); err != nil {
		return err
	}
	if attr.MaxMcastGrp < cfg.Groups {
		return fmt.Errorf("ud: device %s can attach to %d groups, but %d are configured: %w", attr.Name, attr.MaxMcastGrp, cfg.Groups, transport.ErrGroupLimit)
	}
	mtu := int(port.ActiveMTU)
	if err = cfg.fit(&attr, mtu); err != nil {
		return err
	}
	if err = t.build(dev, cfg); err != nil {
		return err
	}
	if err = t.queues(cfg, mtu); err != nil {
		return err
	}
	addrs := cfg.groupAddrs()
	t.members = &memberships{
		addrs: addrs, rx: v.rx, tx: v.tx, pd: v.pd, port: &t.port, link: v.local.LinkLayer,
		open: &t.senders, send: t.send, counts: &t.received, clock: t.clock, log: t.log,
		receivers: make([]*member, cfg.Groups), senders: make([]*member, cfg.Groups), base: lowWord(addrs[0]),
		chance: rand.New(rand.NewPCG(uint64(lowWord(t.local)), uint64(v.qp.QPN()))),
	}
	t.handles = &handles{
		peers: peers.New[source, peer](cfg.Peers), pd: v.pd, send: t.send, waiter: &t.wait, port: &t.port,
		counts: &t.received, clock: t.clock, log: t.log, mtu: mtu,
	}
	t.handles.beginner, _ = v.pd.(rdma.AHBeginner)
	t.caps = transport.Capabilities{
		Name: "ud", Groups: cfg.Groups, MaxPacket: mtu, PacketSize: cfg.PacketSize,
		MaxTrain: maxTrain, MaxTrainBytes: maxTrain * mtu, Batch: batch, LendMax: cfg.lendMax(),
		ReceiveCapacity: cfg.ReceiveQueue - t.recv.together + 1, GroupsTogether: true,
		EqualTrains: attr.EqualRuns, Checked: !attr.NoICRC,
		// On RoCE a peer may use rdma/roce without the privileges to check the complete ICRC.
		PeersUnchecked: v.local.LinkLayer == rdma.LinkLayerEthernet,
	}
	return nil
}

// build makes the verbs objects.
func (t *Transport) build(dev rdma.Device, cfg *Config) (err error) {
	v := &t.verbs
	if v.pd, err = dev.AllocPD(); err != nil {
		return named("allocate protection domain", err)
	}
	if err = t.wait.open(dev); err != nil {
		return named("create waiter", err)
	}
	if v.comp, err = dev.NewCompChannel(); err != nil {
		return named("create completion channel", err)
	}
	if v.recv, err = dev.CreateCQ(cfg.ReceiveQueue, v.comp, nil); err != nil {
		return named("create completion queue", err)
	}
	if v.send, err = dev.CreateCQ(cfg.SendQueue, v.comp, nil); err != nil {
		return named("create completion queue", err)
	}
	v.qp, err = v.rx.CreateQP(v.pd, rdma.QPInitAttr{
		SendCQ: v.send, RecvCQ: v.recv,
		Cap: rdma.QPCap{MaxSendWR: cfg.SendQueue, MaxRecvWR: cfg.ReceiveQueue, MaxSendSGE: 1, MaxRecvSGE: 1},
	})
	return named("create queue pair", err)
}

// queues makes both queues in registered memory, and posts all receives.
func (t *Transport) queues(cfg *Config, mtu int) error {
	v := &t.verbs
	attr, err := v.qp.Query()
	if err != nil {
		return named("query queue pair", err)
	}
	pitch, staging := align(rdma.GRHBytes+mtu), align(mtu)
	slots := (cfg.ReceiveQueue + cfg.lendMax() + batch) * pitch
	if err = t.memory.open(v.pd, slots+cfg.SendQueue*staging, cfg.Arena); err != nil {
		return named("packet memory", err)
	}
	own, lkey := t.memory.own, t.memory.lkey
	t.send = &sendQueue{
		qp: v.qp, cq: v.send, waiter: &t.wait, depth: uint64(cfg.SendQueue), staging: own[slots:], pitch: staging, lkey: lkey,
	}
	t.send.init()
	t.recv = &recvQueue{
		qp: v.qp, cq: v.recv, link: v.local.LinkLayer, waiter: &t.wait, counts: &t.received, depth: cfg.ReceiveQueue,
		lent: lend.New(cfg.lendMax(), batch, &t.received.LendRefused),
	}
	if err = t.recv.init(own[:slots], lkey, pitch, rdma.GRHBytes+mtu); err != nil {
		return fmt.Errorf("ud: %w", err)
	}
	t.recovery = recovery{attr: attr, send: t.send, recv: t.recv, clock: t.clock, log: t.log}
	return nil
}

// align rounds up to cache lines.
func align(n int) int { return (n + 63) &^ 63 }

// findPort is the address of the configured port.
func findPort(cfg *Config) (ip netip.Addr, err error) {
	names := []string{cfg.Device}
	if cfg.Device == "" {
		if names, err = cfg.Provider.Devices(); err != nil {
			return ip, named("list devices", err)
		}
		if len(names) == 0 {
			return ip, fmt.Errorf("ud: provider %s has no RDMA device", cfg.Provider.Name())
		}
	}
	var inactive netip.Addr
	for _, name := range names {
		found, active, err := portOf(cfg, name)
		switch {
		case err != nil:
			return ip, err
		case active:
			return found, nil
		case !inactive.IsValid():
			inactive = found
		}
	}
	if !inactive.IsValid() {
		return ip, fmt.Errorf("ud: no port of %v has an IP address; give its network interface one, since groups are joined by IP address", names)
	}
	return inactive, nil
}

// portOf finds a port of a device with an address, preferably an active one.
func portOf(cfg *Config, name string) (ip netip.Addr, active bool, err error) {
	dev, err := cfg.Provider.OpenDevice(name)
	if err != nil {
		return ip, false, named("open device "+name, err)
	}
	defer dev.Close()
	attr, err := dev.Attr()
	if err != nil {
		return ip, false, named("query device "+name, err)
	}
	first, last := 1, attr.PhysPorts
	if cfg.Port != 0 {
		if first, last = cfg.Port, cfg.Port; cfg.Port > attr.PhysPorts {
			return ip, false, fmt.Errorf("ud: device %s has no port %d; its ports are 1 to %d", name, cfg.Port, attr.PhysPorts)
		}
	}
	for num := first; num <= last; num++ {
		port, err := dev.Port(uint8(num))
		if err != nil {
			return ip, false, named("query port", err)
		}
		for _, a := range port.Addrs {
			if a.Is4() != cfg.Range.Addr().Is4() && port.LinkLayer == rdma.LinkLayerEthernet {
				continue // RoCE sends to IPv4 groups from an IPv4 address only
			}
			if port.State == rdma.PortActive {
				return a, true, nil
			}
			if !ip.IsValid() {
				ip = a
			}
		}
	}
	return ip, false, nil
}

// abandon frees the objects of a failed Open.
func (t *Transport) abandon() {
	v := &t.verbs
	if v.qp != nil {
		_ = v.rx.DestroyQP() // it is attached to no group
	}
	t.closeObjects()
	for _, id := range []rdma.ID{v.rx, v.tx} {
		if id != nil {
			_ = id.Destroy(context.Background()) // it has no unacknowledged event, so this does not wait
		}
	}
	if v.ch != nil {
		_ = v.ch.Close()
	}
	t.memory.end()
}
