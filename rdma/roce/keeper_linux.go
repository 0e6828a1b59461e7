package roce

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/sys"
)

// keeper is the goroutine that reads the unicast sockets when nobody else does,
// and follows the interface. The kernel may give this process the unicast datagrams
// of others, which must not wait until it polls again. device.start starts it and
// Provider.Close ends it.
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
	lookAt  time.Time // when the interface is looked at without news; zero: never
}

// keeperGrace is how long the keeper leaves datagrams to those who poll: long
// beside a wake-up, short beside how long anybody waits for an answer.
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
	if k.news.Tells() && err == nil {
		err = k.news.AddTo(k.poll, 0)
		k.lookAt = time.Now() // for what happened before there was news
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
		// Looked at by itself: sig wakes it once, and a select between this and a
		// timer that has rung could take the timer, and block for ever.
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
			k.lookAt = time.Time{}
			if !d.follow(k) {
				k.lookAt = time.Now().Add(lookAgain)
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

// lookAgain is when the interface is looked at anew after a look that failed, or
// of which not all could be taken in.
const lookAgain = 250 * time.Millisecond

// waitLimit is how long the keeper may wait for news.
func (k *keeper) waitLimit() time.Duration {
	if k.lookAt.IsZero() {
		return sys.Forever
	}
	return max(0, time.Until(k.lookAt))
}

// stop ends the goroutine and waits for it.
func (k *keeper) stop() {
	close(k.quit)
	k.sig.Raise()
	k.done.Wait()
	k.close()
}
