package legs

import (
	"sync/atomic"
	"time"
)

// A Wait blocks in the Wait of one leg, the host. If that waits on a descriptor, so do the others that
// can (transport.Pollable): it is one system call for all.
//
// Each other leg has a helper, a goroutine that blocks in that leg's Wait at the same time and wakes the host: so a leg
// needs nothing but the contract. The helper owns the leg while it waits; the loop calls its Wake to get it back.
type helper struct {
	begin chan struct{} // to wait; nil: there is none yet
	back  chan struct{} // it has waited
	gone  chan struct{} // closed when it has ended
	away  bool          // it waits, or is about to come back. Loop only
	call  atomic.Bool   // the loop calls it back, and need not be woken
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

// own makes the leg the loop's own.
func (l *leg) own() {
	if h := &l.helper; h.away && !h.idle() {
		h.call.Store(true)
		l.Wake()
		<-h.back
		h.call.Store(false)
		h.away = false
	}
}

// send has the helper of a leg wait.
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

// help is a helper's goroutine. It ends with the transport (Poll). If it is called back it does not
// wake the loop: the loop's next Wait would end at once, it would call again, and so on.
func (t *Transport) help(l waiting, begin <-chan struct{}, back, gone chan<- struct{}, call *atomic.Bool) {
	defer close(gone)
	for range begin {
		_ = l.Wait(-1) // a leg that has ended says so to Poll, too
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
	host.own()
	if int(t.waits.Swap(int32(at))) != at {
		host.Wake() // a Wake of before may have gone to another
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

// host is the leg that this transport waits in, by its Wait, or -1: the first living leg that can wait for others, or
// else the first living one.
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
