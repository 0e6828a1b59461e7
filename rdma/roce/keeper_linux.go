package roce

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/sys"
)

// keeper is the goroutine that reads the unicast sockets when no other goroutine does, and follows the
// interface. The kernel may give this process unicast datagrams for others, which must not wait until
// it polls again. device.start starts it and Provider.Close ends it.
type keeper struct {
	poll  *sys.Poller
	sig   *sys.Signal
	grace time.Duration // keeperGrace
	quit  chan struct{}
	done  sync.WaitGroup
	news  sys.LinkWatch

	// Of the goroutine only, once it runs.
	sockets []*socket
	removed bool      // the interface is gone
	checkAt time.Time // when the interface is looked at without news; zero: never
}

// keeperGrace is how long the keeper leaves datagrams to polling goroutines: longer than a wake-up,
// shorter than any wait for an answer.
const keeperGrace = time.Millisecond

// startKeeper starts it for the device's sockets. The caller holds mu.
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
		err = k.news.Open()
	}
	if k.news.Reports() && err == nil {
		err = k.news.AddTo(k.poll, 0)
		k.checkAt = time.Now() // for what happened before there was news
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
	k.news.Close()
}

func (k *keeper) run(d *device) {
	defer k.done.Done()
	grace := time.NewTimer(k.grace)
	defer grace.Stop()
	var evs [4]unix.EpollEvent
	for {
		k.poll.Block(evs[:], k.waitLimit())
		// Checked separately: sig wakes it once, and a select between this and an expired timer could take the
		// timer, and block forever.
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
		if k.news.Discard() || k.waitLimit() == 0 {
			k.checkAt = time.Time{}
			if !d.follow(k) {
				k.checkAt = time.Now().Add(checkAgain)
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

// checkAgain is when the interface is looked at anew after a look that failed, or of which not all could be taken in.
const checkAgain = 250 * time.Millisecond

// waitLimit is how long the keeper may wait for news.
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
