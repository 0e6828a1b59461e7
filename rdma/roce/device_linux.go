package roce

import (
	"math/bits"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/internal/soft"
)

// device is an interface as package soft's backend.
//
// Locks, in this order: soft.Host.cm, rxMu, the others of package soft, mu. So
// what soft calls may take mu only, but for Drain.
type device struct {
	p    *Provider
	cfg  *Config
	link link
	uid  uint32 // of this process
	soft *soft.Device
	// full says that IPv4 is received from a raw socket.
	full  bool
	count counters
	// trains says that GSO works on the way out, as far as is known.
	trains atomic.Bool
	// running says that the sockets are open, gone that they never will be
	// again.
	running, gone atomic.Bool

	// rxMu is held by who receives.
	rxMu sync.Mutex
	rx   receiver

	mu      sync.Mutex
	open    bool
	closed  bool
	watched *poller // of all sockets
	sockets map[int32]*socket
	nextID  int32
	groups  map[netip.Addr]*socket
	retired []*socket // to be closed by who receives
	senders map[rdma.QPN]*sender
	relayFD int // to send to other processes from
	waiters map[*waiter]struct{}
	parked  atomic.Int32 // of the waiters

	watch watch
	keep  *keeper // from the first start on
}

var (
	_ soft.Backend    = (*device)(nil)
	_ soft.Progressor = (*device)(nil)
	_ soft.QPKeeper   = (*device)(nil)
	_ soft.Armer      = (*device)(nil)
	_ soft.Parker     = (*device)(nil)
	_ soft.Attacher   = (*device)(nil)
	_ soft.Drainer    = (*device)(nil)
)

func newDevice(p *Provider, cfg *Config, l link, full bool) *device {
	d := &device{
		p: p, cfg: cfg, link: l, uid: uint32(os.Getuid()), full: full, relayFD: -1,
		sockets: map[int32]*socket{}, groups: map[netip.Addr]*socket{},
		senders: map[rdma.QPN]*sender{}, waiters: map[*waiter]struct{}{},
	}
	d.trains.Store(!cfg.NoGSO)
	d.watch.init(d)
	attr := l.attr(cfg)
	attr.NoICRC = !full
	if cfg.Limits != nil {
		cfg.Limits(&attr)
	}
	d.soft = p.host.NewDevice(soft.DeviceConfig{Attr: attr, Ports: []soft.PortState{l.state()}}, d)
	if p.work.ran == nil {
		p.work.ran = p.wakeAll
	}
	return d
}

// route tells ResolveAddr, when it is asked without a source, from which device
// to send: the one whose interface has the route; to groups the first that is
// not loopback.
func (p *Provider) route() {
	for i := len(p.devices) - 1; i >= 0; i-- {
		for _, a := range p.devices[i].link.addrs {
			if a.Is4() {
				p.host.AddRoute(netip.PrefixFrom(a, 32), a)
			}
		}
	}
	for _, d := range p.devices {
		for _, a := range d.link.addrs {
			if a.Is4() {
				p.host.AddRoute(netip.MustParsePrefix("0.0.0.0/0"), a)
				return
			}
		}
	}
}

// wakeAll ends the waiting of all waiters: an event may have been made.
func (p *Provider) wakeAll() {
	for _, d := range p.devices {
		d.wake()
	}
}

// After implements soft.Backend.
func (d *device) After(delay time.Duration, f func()) (cancel func()) {
	return d.p.work.after(delay, f)
}

// SA implements soft.Backend. RoCE has no subnet administrator, and soft asks
// none.
func (d *device) SA(uint8, soft.SARequest, func(soft.SAReply)) {}

// start opens what all queue pairs of the device share. The caller holds mu.
func (d *device) start() (err error) {
	const op = "open sockets"
	switch {
	case d.closed:
		return rdma.ClosedError(op, "provider")
	case d.open:
		return nil
	}
	if d.watched == nil {
		if d.watched, err = newPoller(); err != nil {
			return failed(op, err)
		}
	}
	defer func() {
		if err != nil {
			d.retireAll()
		}
	}()
	if d.relayFD < 0 {
		if d.relayFD, err = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0); err != nil {
			return failed(op, named("socket", err))
		}
	}
	for _, a := range d.link.addrs {
		s, err := openUnicast(d, a)
		if err == nil {
			err = d.add(s)
		}
		if err != nil {
			return failed(op, err)
		}
	}
	if d.full {
		s, err := openRaw(d)
		if err == nil {
			err = d.add(s)
		}
		if err != nil {
			return failed(op, err)
		}
	}
	if err := d.startKeeper(); err != nil {
		return failed(op, err)
	}
	d.open = true
	d.running.Store(true)
	if d.soft.Armed() {
		d.Arm()
	}
	return nil
}

// add watches a socket. The caller holds mu.
func (d *device) add(s *socket) error {
	d.nextID++
	s.id = d.nextID
	if err := d.watched.add(s.fd, s.id, unix.EPOLLIN); err != nil {
		s.close()
		return err
	}
	d.sockets[s.id] = s
	return nil
}

// retire takes a socket out of use. It is closed here if nobody receives just
// now, else by who does. The caller holds mu.
func (d *device) retire(s *socket) {
	delete(d.sockets, s.id)
	d.watched.remove(s.fd)
	s.retired.Store(true)
	d.retired = append(d.retired, s)
	if d.rxMu.TryLock() {
		d.bury()
		d.rxMu.Unlock()
	}
}

func (d *device) retireAll() {
	for _, s := range d.sockets {
		d.retire(s)
	}
	clear(d.groups)
}

// bury closes retired sockets. The caller holds rxMu and mu.
func (d *device) bury() {
	for _, s := range d.retired {
		s.close()
	}
	d.retired = d.retired[:0]
}

// JoinIP implements soft.Backend: an IGMP report. What is no group needs none;
// attaching to it fails later.
func (d *device) JoinIP(_ uint8, group netip.Addr) error {
	if !group.IsMulticast() {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.join(group)
}

// join: the caller holds mu.
func (d *device) join(group netip.Addr) error {
	if err := d.start(); err != nil {
		return err
	}
	s, err := openGroup(d, group)
	if err != nil {
		return err
	}
	if err := d.add(s); err != nil {
		return err
	}
	d.groups[group] = s
	return nil
}

// LeaveIP implements soft.Backend: an IGMP leave, now.
func (d *device) LeaveIP(_ uint8, group netip.Addr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.groups[group]; s != nil {
		delete(d.groups, group)
		s.leave(group, d.link.index)
		d.retire(s)
	}
}

// Attached implements soft.Attacher: the connection manager cannot join IPv6
// groups on RoCEv2, so the interface joins when a queue pair is attached.
func (d *device) Attached(gid rdma.GID) error {
	if gid.IsV4Mapped() {
		return nil
	}
	return d.JoinIP(1, gid.IP())
}

// Detached undoes it.
func (d *device) Detached(gid rdma.GID) {
	if !gid.IsV4Mapped() {
		d.LeaveIP(1, gid.IP())
	}
}

// NewQP implements soft.QPKeeper: it leases a number that no other process of
// this host has.
func (d *device) NewQP() (rdma.QPN, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.start(); err != nil {
		return 0, err
	}
	qpn, lease, err := leaseQPN()
	if err != nil {
		return 0, err
	}
	if err := d.add(lease); err != nil {
		return 0, failed("create QP", err)
	}
	d.senders[qpn] = newSender(d, qpn, lease)
	return qpn, nil
}

// CloseQP implements soft.QPKeeper.
func (d *device) CloseQP(qpn rdma.QPN) {
	d.mu.Lock()
	s := d.senders[qpn]
	delete(d.senders, qpn)
	if s != nil {
		d.retire(s.lease)
	}
	d.mu.Unlock()
	if s != nil {
		s.close()
	}
}

// await has a queue pair resumed when an outlet has room again. It reports false
// if that cannot be.
func (d *device) await(q *soft.QP, o *outlet) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	o.waiting = q
	if o.watched == nil || o.watched.fd != o.full {
		d.unwatch(o)
		d.nextID++
		o.watched = &socket{fd: o.full, id: d.nextID, kind: sendSocket, out: o}
		if d.watched.add(o.full, o.watched.id, unix.EPOLLOUT|unix.EPOLLONESHOT) != nil {
			o.watched = nil
			return false
		}
		d.sockets[o.watched.id] = o.watched
		return true
	}
	return d.watched.again(o.full, o.watched.id, unix.EPOLLOUT|unix.EPOLLONESHOT) == nil
}

// unwatch forgets an outlet's socket; the outlet closes it. The caller holds mu.
func (d *device) unwatch(o *outlet) {
	if s := o.watched; s != nil {
		delete(d.sockets, s.id)
		d.watched.remove(s.fd)
		s.retired.Store(true)
		o.watched = nil
	}
	o.waiting = nil
}

// owns reports whether a queue pair is the device's.
func (d *device) owns(qpn rdma.QPN) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.senders[qpn] != nil
}

// isOwn reports whether a unicast address is the device's.
func (d *device) isOwn(gid rdma.GID) bool {
	for _, a := range d.link.addrs {
		if rdma.GIDFromIP(a) == gid {
			return true
		}
	}
	return false
}

func (d *device) close() {
	d.watch.stop()
	d.mu.Lock()
	d.closed = true // nothing starts any more
	keep := d.keep
	d.mu.Unlock()
	if keep != nil {
		keep.stop()
	}
	d.rxMu.Lock()
	defer d.rxMu.Unlock()
	d.mu.Lock()
	d.open = false
	d.running.Store(false)
	d.gone.Store(true)
	var leaving []*sender
	for qpn, s := range d.senders {
		leaving = append(leaving, s)
		delete(d.senders, qpn)
	}
	for _, s := range d.sockets {
		d.watched.remove(s.fd)
		if s.kind != sendSocket { // which the outlet closes
			s.close()
		}
	}
	clear(d.sockets)
	clear(d.groups)
	d.bury()
	if d.relayFD >= 0 {
		unix.Close(d.relayFD)
		d.relayFD = -1
	}
	d.rx.close()
	for w := range d.waiters {
		w.Wake()
	}
	if d.watched != nil {
		d.watched.close()
	}
	d.mu.Unlock()
	for _, s := range leaving {
		s.close()
	}
}

// isMember reports whether the device is a member of a group.
func (d *device) isMember(gid rdma.GID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.groups[gid.IP()] != nil
}

// capacity is how many datagrams of size bytes of payload wait in a socket's
// receive buffer, each counted as if it came by itself: the kernel charges
// memory, not payload, and cards with a page each at the worst
// (net/core/skbuff.c, __alloc_skb).
func (d *device) capacity(size int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	granted := 0
	for _, s := range d.sockets {
		if s.kind == unicastSocket || s.kind == rawSocket {
			if n, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUF); err == nil && (granted == 0 || n < granted) {
				granted = n
			}
		}
	}
	const skb, rest = 256, 512 // struct sk_buff; headers, struct skb_shared_info
	charge := skb + 1<<bits.Len(uint(size+rest-1))
	if !d.link.loopback {
		charge = max(charge, 4096+3*skb)
	}
	return granted / charge
}
