package ud

import (
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
)

// portWatch checks that the port is up, and has the GID that the transport is bound to. Otherwise packets would be lost
// silently, because no call fails, and on RoCE no membership ends. Loop only.
type portWatch struct {
	dev     rdma.Device // for events of the port
	name    string      // of the device
	num     uint8
	entry   rdma.GIDEntry
	polls   uint
	away    error         // why nothing can be sent or received; nil: the port works
	checkAt time.Duration // when to check the port without an event
	clock   func() time.Duration
}

// pollsBetween is the number of Polls between two checks in a spinning loop. A loop that waits checks before each Wait.
const pollsBetween = 1024

// recheckPort is the interval of checks after a failed check, and while nothing can be sent.
const recheckPort = 250 * time.Millisecond

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
		return fmt.Errorf("ud: port %d of %s has lost the GID with index %d: %w", w.num, name, local.SGIDIndex, syscall.EADDRNOTAVAIL)
	}
	w.entry = list[i]
	return nil
}

// news reads the device's events, and reports whether one is about the port.
func (w *portWatch) news() (any bool) {
	for {
		ev, err := w.dev.TryGetAsyncEvent()
		if err != nil {
			return any
		}
		switch ev.Type {
		case rdma.AsyncGIDChange, rdma.AsyncPortErr, rdma.AsyncPortActive:
			any = any || ev.Port == w.num
		}
	}
}

// check returns why the port cannot be used, nil if it can; err if it could not be checked.
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
		return fmt.Errorf("GID %v was removed from port %d of %s: %w", w.entry.GID, w.num, w.name, syscall.EADDRNOTAVAIL), nil
	}
	return nil, nil
}

// watch checks the port after an event, or when it is due. It reports whether away has changed between nil and not nil.
func (w *portWatch) watch() bool {
	now := w.clock()
	if !w.news() && now < w.checkAt {
		return false
	}
	away, err := w.check()
	w.checkAt = never
	if err != nil || away != nil {
		w.checkAt = now + recheckPort
	}
	if err != nil || (away == nil) == (w.away == nil) {
		return false
	}
	w.away = away
	return true
}
