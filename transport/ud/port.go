package ud

import (
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/transport"
)

// portWatch follows the port: whether it is up, and still has the GID that the transport is bound to.
// Otherwise no call fails, and on RoCE no membership ends: packets would be lost silently. Loop only.
type portWatch struct {
	dev     rdma.Device // for its events
	name    string      // of the device
	num     uint8
	entry   rdma.GIDEntry
	polls   uint
	away    error         // why nothing can be sent or received; nil: it can
	checkAt time.Duration // when the port is looked at, also without news; negative: never
}

// pollsBetween is how many Polls of a loop that spins may pass between two checks. A loop that waits
// checks before each Wait.
const pollsBetween = 1024

// portAgain is when the port is looked at anew after a look that failed, and while nothing can be sent.
const portAgain = 250 * time.Millisecond

func (w *portWatch) open(provider rdma.Provider, name string, local rdma.Local) (err error) {
	w.name, w.num = name, local.Port
	if w.dev, err = provider.OpenDevice(name); err != nil {
		return named("watch the port", err)
	}
	list, err := w.dev.GIDs(local.Port)
	if err != nil {
		return named("watch the port", err)
	}
	i := slices.IndexFunc(list, func(e rdma.GIDEntry) bool { return e.Index == local.SGIDIndex })
	if i < 0 {
		return fmt.Errorf("ud: port %d of %s has lost the GID of index %d meanwhile: %w", w.num, name, local.SGIDIndex, syscall.EADDRNOTAVAIL)
	}
	w.entry = list[i]
	return nil
}

func (w *portWatch) close() {
	if w.dev != nil {
		_ = w.dev.Close() // nothing was made from it
		w.dev = nil
	}
}

// news takes the device's events, and reports whether one is about the port.
func (w *portWatch) news() (any bool) {
	for w.dev != nil {
		ev, err := w.dev.TryGetAsyncEvent()
		if err != nil {
			break
		}
		switch ev.Type {
		case rdma.AsyncGIDChange, rdma.AsyncPortErr, rdma.AsyncPortActive:
			any = any || ev.Port == w.num
		}
	}
	return any
}

// check says why the port is of no use now, if so. The error says that it could not be looked at.
func (w *portWatch) check() (away, err error) {
	port, err := w.dev.Port(w.num)
	if err != nil {
		return nil, err
	}
	if port.State != rdma.PortActive {
		return fmt.Errorf("port %d of %s is down: %w", w.num, w.name, syscall.ENETDOWN), nil
	}
	list, err := w.dev.GIDs(w.num)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(list, func(e rdma.GIDEntry) bool { return e.GID == w.entry.GID }) {
		return fmt.Errorf("GID %v is gone from port %d of %s: %w", w.entry.GID, w.num, w.name, syscall.EADDRNOTAVAIL), nil
	}
	return nil, nil
}

// watchPort checks the port after an event, or when it is time. While the port is unusable all
// memberships are lost, and none is tried again.
func (t *Transport) watchPort() {
	w, now := &t.port, t.cfg.Clock()
	if w.dev == nil || t.closing.Load() || !w.news() && (w.checkAt < 0 || now < w.checkAt) {
		return
	}
	away, err := w.check()
	w.checkAt = -1
	if err != nil || away != nil {
		w.checkAt = now + portAgain
	}
	if err != nil || (away == nil) == (w.away == nil) {
		return
	}
	w.away = away
	for _, list := range [][]*member{t.members.receivers, t.members.senders} {
		for _, m := range list {
			switch {
			case m == nil:
			case away != nil && m.phase == in:
				m.failed(away)
			case away == nil && m.want && (m.phase == resting || m.phase == leaving):
				if m.tries, m.retryAt = 0, now; t.verbs.local.LinkLayer != rdma.LinkLayerEthernet {
					m.retryAt += t.spread() // one subnet administrator serves all
				}
			}
		}
	}
}

// untilCheck is timeout, or the time until the port is looked at, if that is to be.
func (t *Transport) untilCheck(timeout time.Duration) time.Duration {
	if t.port.checkAt < 0 {
		return timeout
	}
	wait := max(0, t.port.checkAt-t.cfg.Clock())
	if timeout < 0 {
		return wait
	}
	return min(timeout, wait)
}

var errAway = fmt.Errorf("ud: the port is down, or has lost its address: %w", transport.ErrNotReady)

// errTooLong is the error of a packet that the port does not take any more since its MTU has become smaller.
var errTooLong = fmt.Errorf("ud: the port's MTU has become smaller than the packets, raise it again or open anew: %w: %w", transport.ErrNotReady, syscall.EMSGSIZE)
