package roce

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// keeper is the goroutine that reads the unicast sockets when nobody else does.
// The kernel may give this process the unicast datagrams of others, which must
// not wait until it polls again. device.start starts it and Provider.Close ends
// it.
type keeper struct {
	poll *poller
	sig  signal
	quit chan struct{}
	done sync.WaitGroup
}

// keeperGrace is how long the keeper leaves datagrams to those who poll: long
// beside a wake-up, short beside the patience of who waits for an answer.
const keeperGrace = time.Millisecond

// startKeeper starts it for the device's sockets. The caller holds mu.
func (d *device) startKeeper() error {
	k := &keeper{quit: make(chan struct{})}
	var err error
	if k.poll, err = newPoller(); err != nil {
		return err
	}
	if err = k.sig.open(); err != nil {
		k.poll.close()
		return err
	}
	err = k.poll.add(k.sig.fd, 0, unix.EPOLLIN|unix.EPOLLET)
	var sockets []*socket
	for _, s := range d.sockets {
		if s.kind == unicastSocket && err == nil {
			sockets = append(sockets, s)
			err = k.poll.add(s.fd, s.id, unix.EPOLLIN)
		}
	}
	if err != nil {
		k.sig.close()
		k.poll.close()
		return err
	}
	d.keep = k
	k.done.Add(1)
	go k.run(d, sockets)
	return nil
}

func (k *keeper) run(d *device, sockets []*socket) {
	defer k.done.Done()
	grace := time.NewTimer(keeperGrace)
	defer grace.Stop()
	var evs [4]unix.EpollEvent
	for {
		k.poll.block(evs[:])
		grace.Reset(keeperGrace)
		select {
		case <-k.quit:
			return
		case <-grace.C:
		}
		n := 0
		d.rxMu.Lock()
		if d.running.Load() && (d.rx.mem != nil || d.rx.open(d) == nil) {
			for _, s := range sockets {
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

// stop ends the goroutine and waits for it.
func (k *keeper) stop() {
	close(k.quit)
	k.sig.raise()
	k.done.Wait()
	k.sig.close()
	k.poll.close()
}
