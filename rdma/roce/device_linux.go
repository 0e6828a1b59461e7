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

// device is an interface as package soft's backend.
//
// Locks, in this order: soft.Host.cm, rxMu, the others of package soft, mu. So methods that soft calls
// may take only mu, except Drain.
type device struct {
	p     *Provider
	cfg   *Config
	link  link
	users users
	soft  *soft.Device
	// full says that IPv4 is received from a raw socket.
	full  bool
	count counters
	// trains says that GSO works on the way out, as far as is known.
	trains atomic.Bool
	// running says that the sockets are open, gone that they never will be again.
	running, gone atomic.Bool

	// rxMu is held while receiving.
	rxMu sync.Mutex
	rx   receiver

	mu      sync.Mutex
	open    bool
	closed  bool
	sockets sockets
	senders map[rdma.QPN]*sender
	relayFD int // to send to other processes from
	waiters map[*waiter]struct{}
	parked  atomic.Int32 // of the waiters

	watch watch
	keep  *keeper // from the first start on
	// findLink is currentLink, and maxGIDs the constant, except in tests. Only the keeper uses them.
	findLink func(index int, cfg *Config) (link, error)
	maxGIDs  int
}

// sockets are a device's sockets, by purpose. Under device.mu.
type sockets struct {
	watched *sys.Poller // of all
	byID    map[int32]*socket
	nextID  int32
	groups  map[netip.Addr]*socket
	// unicast are the sockets of the addresses that the interface has; written under rxMu too. removed are the others of
	// link.addrs, which keep their entries in the GID table, the longest gone first.
	unicast map[netip.Addr]*socket
	removed []netip.Addr
	raw     *socket   // of IPv4, if it is received in full; nil before the first start
	retired []*socket // to be closed by the receiving goroutine
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

// route chooses the device from which ResolveAddr sends when called without a source: the one with the
// interface of the route; for groups the first that is not loopback.
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

// SA implements soft.Backend. RoCE has no subnet administrator, and soft asks none.
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
			// It went after Open: the keeper takes it out of the GID table.
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

// retire takes a socket out of use. If a goroutine is receiving, that goroutine closes the socket, else
// retire does. The caller holds mu.
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
	d.closed = true // nothing starts any more
	keep := d.keep
	d.mu.Unlock()
	if keep != nil {
		keep.stop()
	}
	d.rxMu.Lock()
	defer d.rxMu.Unlock()
	d.passOn()
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
		if s.kind != sendSocket { // which the outlet closes
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
		s.close() // which stops watching what waits for room
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sockets.watched != nil {
		d.sockets.watched.Close()
	}
}

// capacity is how many datagrams of size bytes of payload wait in a socket's receive buffer, each counted as if it came
// by itself: the kernel charges memory, not payload, and cards with a page each at the worst (net/core/skbuff.c,
// __alloc_skb).
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
