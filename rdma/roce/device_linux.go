package roce

import (
	"errors"
	"math/bits"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/internal/soft"
)

// device is an interface as the backend of package soft.
//
// Locks are taken in this order: soft.Host.cm, rxMu, the others of package soft, mu. So methods that soft calls may
// only lock mu, except Drain.
type device struct {
	p     *Provider
	cfg   *Config
	link  link
	users users
	soft  *soft.Device
	// full: IPv4 is received from a raw socket.
	full  bool
	count counters
	// trains: sending with GSO works, as far as is known.
	trains atomic.Bool
	// running: the sockets are open. gone: they will not be opened again.
	running, gone atomic.Bool

	// rxMu is held while receiving.
	rxMu sync.Mutex
	rx   receiver

	mu      sync.Mutex
	open    bool
	closed  bool
	sockets sockets
	senders map[rdma.QPN]*sender
	relayFD int // socket for sending to other processes
	waiters map[*waiter]struct{}
	parked  atomic.Int32 // number of waiting waiters

	watch watch
	keep  *keeper // nil before the first start
	// findLink is currentLink, and maxGIDs the constant, unless tests change them. Only the keeper uses them.
	findLink func(index int, cfg *Config) (link, error)
	maxGIDs  int
}

// sockets has a device's sockets by purpose. device.mu guards it.
type sockets struct {
	watched *sys.Poller // with all sockets
	byID    map[int32]*socket
	nextID  int32
	groups  map[netip.Addr]*socket
	// unicast has the sockets of the interface's current addresses; changes also need rxMu. removed has the other
	// addresses of link.addrs, which keep their entries in the GID table, first those removed first.
	unicast map[netip.Addr]*socket
	removed []netip.Addr
	raw     *socket   // for IPv4 with CheckFull; nil before the first start
	retired []*socket // the receiving goroutine must close them
}

var _ soft.Backend = (*device)(nil)

func newDevice(p *Provider, cfg *Config, l link, full bool) *device {
	d := &device{
		p: p, cfg: cfg, link: l, users: currentUsers(), full: full, relayFD: -1,
		sockets: sockets{byID: map[int32]*socket{}, groups: map[netip.Addr]*socket{}, unicast: map[netip.Addr]*socket{}},
		senders: map[rdma.QPN]*sender{}, waiters: map[*waiter]struct{}{},
		findLink: currentLink, maxGIDs: maxGIDs,
	}
	d.trains.Store(!cfg.NoGSO)
	d.watch.init(d)
	attr := l.attr(cfg)
	attr.NoICRC = !full && !cfg.IPv6
	if cfg.Limits != nil {
		cfg.Limits(&attr)
	}
	d.soft = p.host.NewDevice(soft.DeviceConfig{Attr: attr, Ports: []soft.PortState{l.state()}}, d)
	if p.work.ran == nil {
		p.work.ran = p.wakeAll
	}
	return d
}

// route chooses the device for ResolveAddr without a source: the one with the interface of the route, for groups the
// first that is not loopback.
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

// wakeAll wakes all waiters, because there may be an event.
func (p *Provider) wakeAll() {
	for _, d := range p.devices {
		d.wake()
	}
}

func (d *device) After(delay time.Duration, f func()) (cancel func()) {
	return d.p.work.after(delay, f)
}

// SA implements soft.Backend. It is not called, because RoCE has no subnet administrator.
func (d *device) SA(uint8, soft.SARequest, func(soft.SAReply)) {}

// start opens the sockets that all queue pairs of the device share. The caller holds mu.
func (d *device) start() (err error) {
	const op = "open sockets"
	switch {
	case d.closed:
		return rdma.ClosedError(op, "provider")
	case d.open:
		return nil
	}
	if d.sockets.watched == nil {
		if d.sockets.watched, err = sys.NewPoller(); err != nil {
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
			return failed(op, os.NewSyscallError("socket", err))
		}
	}
	var missing error
	for _, a := range d.link.addrs {
		s, err := openUnicast(d, a)
		if errors.Is(err, unix.EADDRNOTAVAIL) && d.cfg.Addrs == nil {
			// It was removed after Open: the keeper removes it from the GID table.
			missing = err
			d.sockets.removed = append(d.sockets.removed, a)
			continue
		}
		if err == nil {
			err = d.add(s)
		}
		if err != nil {
			return failed(op, err)
		}
		d.sockets.unicast[a] = s
	}
	if len(d.sockets.unicast) == 0 && missing != nil {
		return failed(op, missing)
	}
	if d.full {
		s, err := openRaw(d)
		if err == nil {
			err = d.add(s)
		}
		if err != nil {
			return failed(op, err)
		}
		d.sockets.raw = s
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
	d.sockets.nextID++
	s.id = d.sockets.nextID
	if err := d.sockets.watched.Add(s.fd, s.id, unix.EPOLLIN); err != nil {
		s.close()
		return err
	}
	d.sockets.byID[s.id] = s
	return nil
}

// retire stops using a socket. If a goroutine is receiving, that goroutine closes the socket, otherwise retire does.
// The caller holds mu.
func (d *device) retire(s *socket) {
	delete(d.sockets.byID, s.id)
	d.sockets.watched.Remove(s.fd)
	s.retired.Store(true)
	d.sockets.retired = append(d.sockets.retired, s)
	if d.rxMu.TryLock() {
		d.closeRetired()
		d.rxMu.Unlock()
	}
}

func (d *device) retireAll() {
	for _, s := range d.sockets.byID {
		d.retire(s)
	}
	clear(d.sockets.groups)
	clear(d.sockets.unicast)
	d.sockets.removed = nil
	d.sockets.raw = nil
}

// closeRetired closes retired sockets. The caller holds rxMu and mu.
func (d *device) closeRetired() {
	for _, s := range d.sockets.retired {
		s.close()
	}
	d.sockets.retired = d.sockets.retired[:0]
}

func (d *device) close() {
	d.watch.stop()
	d.mu.Lock()
	d.closed = true // so that nothing starts again
	keep := d.keep
	d.mu.Unlock()
	if keep != nil {
		keep.stop()
	}
	d.rxMu.Lock()
	defer d.rxMu.Unlock()
	d.relayRemaining()
	d.mu.Lock()
	d.open = false
	d.running.Store(false)
	d.gone.Store(true)
	var leaving []*sender
	for qpn, s := range d.senders {
		leaving = append(leaving, s)
		delete(d.senders, qpn)
	}
	for _, s := range d.sockets.byID {
		d.sockets.watched.Remove(s.fd)
		if s.kind != sendSocket { // outlets close send sockets
			s.close()
		}
	}
	clear(d.sockets.byID)
	clear(d.sockets.groups)
	clear(d.sockets.unicast)
	d.sockets.raw = nil
	d.closeRetired()
	if d.relayFD >= 0 {
		unix.Close(d.relayFD)
		d.relayFD = -1
	}
	d.rx.close()
	for w := range d.waiters {
		w.Wake()
	}
	d.mu.Unlock()
	for _, s := range leaving {
		s.close() // it stops watching the send sockets
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sockets.watched != nil {
		d.sockets.watched.Close()
	}
}

// capacity returns the number of datagrams with size bytes of payload that fit into a socket's receive buffer if each
// arrives singly: the kernel charges memory, not payload, and network cards use up to a page for each datagram
// (net/core/skbuff.c, __alloc_skb).
func (d *device) capacity(size int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	granted := 0
	for _, s := range d.sockets.byID {
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
