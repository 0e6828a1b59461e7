package fabric

import (
	"sync"
	"time"
)

// pump is the goroutine of a live fabric. Fabric.New starts it and Fabric.Close ends it.
type pump struct {
	wake chan struct{} // a new event may be due earlier
	quit chan struct{}
	once sync.Once
	done chan struct{}
}

func startPump(f *Fabric) *pump {
	p := &pump{wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
	go p.run(f)
	return p
}

func (p *pump) stop() {
	p.once.Do(func() { close(p.quit) })
	<-p.done
}

func (p *pump) run(f *Fabric) {
	defer close(p.done)
	sleep := time.NewTimer(time.Hour)
	defer sleep.Stop()
	for {
		select {
		case <-p.quit:
			return
		default:
		}
		if f.runDue(f.cfg.Clock()) {
			continue
		}
		wait := time.Hour
		if at, ok := f.NextDeadline(); ok {
			if wait = at - f.cfg.Clock(); wait <= 0 {
				continue
			}
		}
		sleep.Reset(wait)
		select {
		case <-sleep.C:
		case <-p.wake:
		case <-p.quit:
			return
		}
	}
}

func (f *Fabric) wakePump() {
	if f.pump == nil {
		return
	}
	select {
	case f.pump.wake <- struct{}{}:
	default:
	}
}
