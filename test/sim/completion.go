package sim

import (
	"fmt"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/reliable"
)

// The end of a run, and reports of what prevents it.

// watch checks whether the run is complete, which must happen within some time after the end of the faults.
func (s *sim) watch() {
	if s.settled() {
		s.report.Drained = max(0, s.now.Sub(s.net.soundAt))
		s.report.done = true
		return
	}
	if s.report.writtenAt == 0 && s.now >= s.net.soundAt && s.written() {
		s.report.writtenAt = s.now
	}
	if at := s.report.writtenAt; at != 0 && s.now.Sub(at) > s.o.Drain {
		s.stuck()
		return
	}
	s.at(min(max(watchEvery, time.Duration(s.now)/16), 100*watchEvery), s.watch)
}

// watchEvery is the shortest interval of these checks. It grows with time, so that idle runs are cheap.
const watchEvery = 200 * time.Microsecond

// written reports whether all publishers have finished writing.
func (s *sim) written() bool {
	for _, p := range s.publishers {
		if p.gone {
			continue
		}
		if !p.alive() || p.o.Lives[p.life].Stop == StopKill {
			return false
		}
		for _, w := range p.writers {
			if w.left > 0 {
				return s.report.Events > maxEvents/2 || s.now > s.net.soundAt.Add(10*time.Minute)
			}
		}
	}
	for _, x := range s.subscribers {
		if !x.gone && (!x.present() || x.o.Stays[x.stay].Stop != StopNever) {
			return false
		}
	}
	return true
}

// settled reports whether all publishers are finished and all present subscribers have everything.
func (s *sim) settled() bool {
	if !s.written() {
		return false
	}
	for _, p := range s.publishers {
		if p.gone {
			continue
		}
		for _, w := range p.writers {
			if w.left > 0 || w.blocked {
				return false
			}
		}
		drained := false
		p.look(func(s *reliable.Sender) { drained = s.Drained() && !s.Unsent() && p.t.unsent() == 0 })
		if p.o.Lives[p.life].Stop != StopNever || !drained || p.pendingReply() != nil {
			return false
		}
	}
	if s.now < s.lastData.Add(10*s.longest()) {
		return false // packets may still be in the network
	}
	for _, x := range s.subscribers {
		if x.present() && (x.incomplete() != nil || x.undetected() != nil) {
			return false
		}
	}
	for _, p := range s.publishers {
		if !p.gone && p.unanswered() >= 0 {
			return false
		}
	}
	return true
}

// stuck reports what prevents the end of a run.
func (s *sim) stuck() {
	for _, p := range s.publishers {
		if !p.gone && p.alive() {
			if m := p.pendingReply(); m != nil {
				s.fail("publisher %d lacks the reply of subscriber %d, which has %d bytes", p.index, m.sub.number, m.size)
			}
			s.trace("publisher %d: %s", p.index, p.status())
			for _, w := range p.writers {
				s.trace("  writer %d: %d messages left, blocked %v", w.index, w.left, w.blocked)
			}
		}
	}
	for _, x := range s.subscribers {
		if x.present() {
			if p := x.undetected(); p != nil {
				s.fail("subscriber %d has not detected publisher %d, epoch %d, after %v without faults", x.number, p.index, p.t.Epoch, s.o.Drain)
			}
			if f := x.incomplete(); f != nil {
				f.fail("has packets up to %d of %d, after %v without faults: up %v, idle %v, loss pending %v", f.x.st.Next(), f.t.next, s.o.Drain, f.x.up(), f.r.idle(), f.lossPending())
			}
		}
	}
	for _, p := range s.publishers {
		if !p.gone && p.alive() {
			if i := p.unanswered(); i >= 0 {
				members, open := p.answer(i)
				s.fail("publisher %d counts %d subscribers of topic %d, incomplete: %v, after %v without faults", p.index, len(members), i, open, s.o.Drain)
			}
		}
	}
	for _, p := range s.publishers {
		if !p.gone && p.alive() {
			s.fail("publisher %d is not finished after %v without faults: %s", p.index, s.o.Drain, p.status())
		}
	}
	s.fail("not complete after %v without faults", s.o.Drain)
}

// status describes the publisher's stream.
func (p *publisher) status() (text string) {
	p.look(func(s *reliable.Sender) {
		text = fmt.Sprintf("lead %d, drained %v, blocked by %v, unsent %v, closing %v, %d requests", s.Lead(), s.Drained(), s.Blocked(), s.Unsent(), p.closing, len(p.openRequests))
	})
	return text
}

// close checks what each subscriber has received at the end.
func (s *sim) close() {
	if s.err == nil {
		for _, x := range s.subscribers {
			if x.present() {
				x.final = true
				x.leave(StopEnd)
			}
		}
	}
	for _, p := range s.publishers {
		if p.alive() {
			p.report()
			if p.o.Queries > 0 && s.err == nil {
				s.report.Answered += uint64(len(p.topics))
			}
		}
	}
	for _, n := range s.networks() {
		stats.Add(&s.report.Net, &n.count)
	}
	s.report.Virtual = time.Duration(s.now)
}
