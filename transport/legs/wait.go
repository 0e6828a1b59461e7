package legs

import (
	"sync/atomic"
	"time"
)

// A Wait blocks in the Wait of one leg, the host. If the host waits on a descriptor, it also waits for those of the
// other legs that have one (transport.Pollable), with one system call.
//
// Every other leg has a helper, a goroutine that blocks in that leg's Wait at the same time and wakes the host: so a
// leg needs only the methods of transport.Transport. The helper owns the leg while it waits; the loop calls the leg's
// Wake to get it back.
type helper struct {
	begin chan struct{} // requests a wait; nil: the helper is not started yet
	back  chan struct{} // the wait has ended
	gone  chan struct{} // closed when the helper has ended
	away  bool          // it waits, or is about to return the leg. Loop only
	call  atomic.Bool   // the loop has called Wake, and need not be woken
}

// idle reports whether the helper does not use its leg.
func (h *helper) idle() bool {
	if h.away {
		select {
		case <-h.back:
			h.away = false
		default:
		}
	}
	return !h.away
}

// stop ends the goroutine of a helper that is idle.
func (h *helper) stop() {
	if h.begin != nil {
		close(h.begin)
		<-h.gone
		h.begin = nil
	}
}

// reclaim ends the helper's wait, if any, so that the loop owns the leg.
func (l *leg) reclaim() {
	if h := &l.helper; h.away && !h.idle() {
		h.call.Store(true)
		l.Wake()
		<-h.back
		h.call.Store(false)
		h.away = false
	}
}

// send makes the helper of a leg wait.
func (t *Transport) send(l *leg) {
	h := &l.helper
	if h.begin == nil {
		h.begin, h.back, h.gone = make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{})
		go t.help(l.Transport, h.begin, h.back, h.gone, &h.call)
	}
	h.away = true
	h.begin <- struct{}{}
}

type waiting interface{ Wait(time.Duration) error }

// help is a helper's goroutine. It ends with the transport (Poll). If the loop ended its wait it does not wake the
// loop: the loop's next Wait would end immediately, end the helper's wait again, and so on.
func (t *Transport) help(l waiting, begin <-chan struct{}, back, gone chan<- struct{}, call *atomic.Bool) {
	defer close(gone)
	for range begin {
		_ = l.Wait(-1) // Poll reports the end of a leg, too
		called := call.Load()
		back <- struct{}{}
		if !called {
			t.Wake()
		}
	}
}

// Wait implements transport.Transport.
func (t *Transport) Wait(timeout time.Duration) error {
	if t.done.Load() {
		return errClosed
	}
	at := t.host()
	if at < 0 {
		return nil // Poll has an error to report
	}
	host := t.legs[at]
	host.reclaim()
	if int(t.waits.Swap(int32(at))) != at {
		host.Wake() // an earlier Wake may have woken another leg
	}
	if timeout == 0 || len(t.pending) > 0 {
		return host.Wait(0)
	}
	for i, l := range t.legs {
		switch {
		case i == at || l.ended:
		case l.joins(host):
			l.begun = true
			timeout = l.poll.BeginWait(timeout)
		case l.helper.idle():
			t.send(l)
		}
	}
	err := host.Wait(timeout)
	for _, l := range t.legs {
		if l.begun {
			l.begun = false
			l.poll.EndWait()
		}
	}
	return err
}

// host is the index of the leg in which Wait blocks: the first running leg that can wait for others, else the first
// running one, or -1.
func (t *Transport) host() int {
	first := -1
	for i, l := range t.legs {
		switch {
		case l.ended:
		case l.poll != nil:
			return i
		case first < 0:
			first = i
		}
	}
	return first
}

// joins reports whether the host waits for this leg, too.
func (l *leg) joins(host *leg) bool {
	if l.poll == nil || host.poll == nil {
		return false
	}
	if l.hostedBy != host {
		if host.poll.WaitFor(l.poll.WaitDescriptor()) != nil {
			l.poll = nil // it gets a helper
			return false
		}
		l.hostedBy = host
	}
	return true
}

// Wake implements transport.Transport.
func (t *Transport) Wake() { t.legs[t.waits.Load()].Wake() }
