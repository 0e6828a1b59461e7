package roce

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/sys"
)

// keeper is the goroutine that reads the unicast sockets when no other goroutine does, and observes the interface. The
// kernel may deliver unicast datagrams for other processes to this one, and they must not wait until it polls.
// device.start starts the keeper and Provider.Close ends it.
type keeper struct {
	poll      *sys.Poller
	sig       *sys.Signal
	grace     time.Duration // keeperGrace
	quit      chan struct{}
	done      sync.WaitGroup
	linkWatch sys.LinkWatch

	// Only the goroutine uses these fields after its start.
	sockets []*socket
	removed bool      // the interface was removed
	checkAt time.Time // when to check the interface without a notification; zero: never
}

// keeperGrace is the time for which the keeper leaves datagrams to polling goroutines: longer than a wake-up, shorter
// than any wait for an answer.
const keeperGrace = time.Millisecond

// startKeeper starts the keeper for the device's sockets. The caller holds mu.
func (d *device) startKeeper() error {
	k := &keeper{grace: keeperGrace, quit: make(chan struct{})}
	var err error
	if k.poll, err = sys.NewPoller(); err != nil {
		return err
	}
	if k.sig, err = sys.NewSignal(k.poll, 0); err != nil {
		k.poll.Close()
		return err
	}
	for _, s := range d.sockets.byID {
		if s.kind == unicastSocket && err == nil {
			k.sockets = append(k.sockets, s)
			err = k.poll.Add(s.fd, s.id, unix.EPOLLIN)
		}
	}
	if err == nil {
		err = k.linkWatch.Open()
	}
	if k.linkWatch.Reports() && err == nil {
		err = k.linkWatch.AddTo(k.poll, 0)
		k.checkAt = time.Now() // for changes before the watch was opened
	}
	if err != nil {
		k.close()
		return err
	}
	d.keep = k
	k.done.Add(1)
	go k.run(d)
	return nil
}

func (k *keeper) close() {
	k.sig.Close()
	k.poll.Close()
	k.linkWatch.Close()
}

func (k *keeper) run(d *device) {
	defer k.done.Done()
	grace := time.NewTimer(k.grace)
	defer grace.Stop()
	var evs [4]unix.EpollEvent
	for {
		k.poll.Block(evs[:], k.waitLimit())
		// quit is checked separately: sig wakes the goroutine only once, and a select that also has an expired timer could
		// choose the timer and block forever.
		select {
		case <-k.quit:
			return
		default:
		}
		grace.Reset(k.grace)
		select {
		case <-k.quit:
			return
		case <-grace.C:
		}
		if k.linkWatch.Discard() || k.waitLimit() == 0 {
			k.checkAt = time.Time{}
			if !d.follow(k) {
				k.checkAt = time.Now().Add(recheckAfter)
			}
		}
		n := 0
		d.rxMu.Lock()
		if d.running.Load() && (d.rx.mem != nil || d.rx.open(d) == nil) {
			for _, s := range k.sockets {
				if !s.retired.Load() {
					got, _ := d.receiveFrom(s)
					n += got
				}
			}
		}
		d.rxMu.Unlock()
		d.received(n)
	}
}

// recheckAfter is the time after which the interface is checked again if a check failed or its result could not be
// applied completely.
const recheckAfter = 250 * time.Millisecond

// waitLimit returns how long the keeper may wait for a notification.
func (k *keeper) waitLimit() time.Duration {
	if k.checkAt.IsZero() {
		return sys.Forever
	}
	return max(0, time.Until(k.checkAt))
}

// stop ends the goroutine and waits for it.
func (k *keeper) stop() {
	close(k.quit)
	k.sig.Raise()
	k.done.Wait()
	k.close()
}
