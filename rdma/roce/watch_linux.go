package roce

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/sys"
)

// watch is the goroutine that receives while a completion queue is armed. The first arming starts it, Provider.Close
// ends it.
type watch struct {
	d    *device
	kick chan struct{}
	quit chan struct{}
	once sync.Once // to stop
	done sync.WaitGroup

	mu      sync.Mutex
	started bool
	stopped bool
	sig     *sys.Signal
}

func (w *watch) init(d *device) {
	w.d, w.kick, w.quit = d, make(chan struct{}, 1), make(chan struct{})
}

// Arm implements soft.Backend.
func (d *device) Arm() {
	w := &d.watch
	w.mu.Lock()
	if !w.started && !w.stopped && d.running.Load() {
		w.begin()
	}
	w.mu.Unlock()
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// begin starts the goroutine. The caller holds mu.
func (w *watch) begin() {
	p, err := sys.NewPoller()
	if err != nil {
		return // no free descriptors: the next Arm retries
	}
	if w.sig, err = sys.NewSignal(p, 0); err == nil {
		if err = p.AddPoller(w.d.sockets.watched, 0); err != nil {
			w.sig.Close()
		}
	}
	if err != nil {
		p.Close()
		return
	}
	w.started = true
	w.done.Add(1)
	go w.run(p)
}

func (w *watch) run(p *sys.Poller) {
	defer w.done.Done()
	defer p.Close()
	var evs [4]unix.EpollEvent
	for {
		select {
		case <-w.quit:
			return
		case <-w.kick:
		}
		for w.d.soft.Armed() {
			p.Block(evs[:], sys.Forever)
			select {
			case <-w.quit:
				return
			default:
			}
			w.d.rxMu.Lock()
			n := w.d.receive()
			w.d.rxMu.Unlock()
			w.d.received(n)
		}
	}
}

func (w *watch) stop() {
	w.once.Do(func() {
		close(w.quit)
		w.mu.Lock()
		w.stopped = true
		if w.started {
			w.sig.Raise()
		}
		w.mu.Unlock()
		w.done.Wait()
		if w.started {
			w.sig.Close()
		}
	})
}
