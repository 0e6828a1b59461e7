package sim

import (
	"context"
	"log/slog"
	"time"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/test/virtual"
)

// process is a process of the network: a loop of the engine over an endpoint, and the goroutines of its user. The loop
// is stepped at its deadline, and when packets have arrived.
type process struct {
	virtual.Tasks
	sim    *sim
	index  int16            // of the node: publishers, then subscribers
	offset reliable.Instant // of its clock: those of different machines are unrelated
	late   time.Duration    // maximum delay of its timers

	run     int          // number of the current loop, so that timers of an earlier one are ignored
	loop    *engine.Loop // nil: not running
	end     *endpoint
	stepped func() // called after each step, check after each turn
	check   func()

	due     reliable.Instant // deadline of the loop, with the delay of its timer
	again   bool             // the last step had more to do
	heard   reliable.Instant // when the packets in the receive queue are noticed; Never: it is empty
	busy    reliable.Instant // it handles packets until then
	frozen  reliable.Instant // frozen until then; 0: running
	armed   reliable.Instant // when the timer fires
	spent   time.Duration    // time that handlers have taken in this step
	running bool             // in turn
	changed bool             // tasks may be able to continue
}

func (s *sim) newProcess(index int) process {
	return process{sim: s, index: int16(index), armed: reliable.Never,
		offset: reliable.Instant(s.net.rng.Int64N(int64(time.Hour)))}
}

// background is the context of calls that may wait forever.
var background = context.Background()

// open opens a loop.
func (p *process) open(end *endpoint, c engine.Config, log slog.Handler) {
	p.run++
	p.end, p.due, p.heard, p.busy, p.spent, p.changed = end, 0, reliable.Never, 0, 0, true
	c.Virtual, c.Clock, c.Logger = p, p.sim.clock(), slog.New(log)
	p.loop = engine.Open(end.transport(), c)
}

// kill ends the process at once, without a trace.
func (p *process) kill() {
	p.end.kill()
	p.run++
	p.loop, p.armed = nil, reliable.Never
	p.Tasks.Stop()
}

// clock returns a wall clock that is the same for all processes, though each has its own monotonic time.
func (s *sim) clock() reliable.Clock {
	return reliable.Clock{ID: 1, Now: func() uint64 { return 1e18 + uint64(s.now) }}
}

// Now implements engine.Virtual.
func (p *process) Now() reliable.Instant { return max(p.sim.now.Add(p.spent), p.busy) + p.offset }

// Rand implements engine.Virtual.
func (p *process) Rand() uint64 { return p.sim.net.rng.Uint64() }

// After implements engine.Virtual: it calls f after d, when the process runs.
func (p *process) After(d time.Duration, f func()) {
	run := p.run
	p.sim.schedule(max(d, 0), alarm, p.index, func() {
		if p.run == run {
			f()
			p.changed = true
			p.turn()
		}
	})
}

// pause makes the calling task wait.
func (p *process) pause(d time.Duration) {
	over := false
	p.After(d, func() { over = true })
	p.Wait(func() bool { return over })
}

// wakes makes the loop run.
func (p *process) wakes() {
	p.end.woken, p.changed = true, true
	p.turn()
}

// maxTurns bounds the turns of a process at one time.
const maxTurns = 10_000

// turn continues the tasks and the loop until all wait.
func (p *process) turn() {
	if p.running || p.frozen != 0 {
		return
	}
	p.running = true
	defer func() { p.running = false }()
	for turns := 0; p.loop != nil && p.sim.err == nil; turns++ {
		ran := p.changed && p.Tasks.Run()
		if p.changed = false; p.loop == nil {
			return
		}
		if at := p.wait(); at > p.sim.now {
			if !ran {
				p.arm(at)
				p.check()
				return
			}
			continue
		}
		if turns == maxTurns {
			p.sim.fail("node %d never sleeps: its deadline is %v, packets were heard at %v, woken %v", p.index, time.Duration(p.due), time.Duration(p.heard), p.end.woken)
		}
		p.step()
	}
}

// wait returns when the loop is to be stepped.
func (p *process) wait() reliable.Instant {
	at := p.heard
	if p.end.woken {
		at = 0
	}
	return max(min(at, p.due, p.end.freed()), p.busy)
}

func (p *process) arm(at reliable.Instant) {
	if at < p.armed {
		p.armed = at
		p.sim.q.push(event{at: at, kind: timer, node: p.index})
	}
}

// timer continues the process, if e is its current timer event.
func (p *process) timer(e event) {
	if e.at == p.armed {
		p.armed = reliable.Never
		p.turn()
	}
}

func (p *process) step() {
	p.end.woken, p.heard, p.end.polled, p.spent = false, reliable.Never, 0, 0
	p.end.complete()
	p.due = p.loop.Step()
	if p.again = p.due <= p.Now(); p.due != reliable.Never {
		if p.due -= p.offset; !p.again {
			p.due = p.due.Add(p.sim.net.upTo(p.late))
		}
	}
	if len(p.end.rx) > 0 {
		p.heard = p.sim.now
	}
	p.busy = p.sim.now.Add(p.spent + time.Duration(p.end.polled)*p.end.service)
	p.changed = true
	p.stepped()
}

// arrive puts a packet into the receive queue, if there is room.
func (p *process) arrive(x *packet, unicast bool) {
	if p.loop == nil {
		p.sim.pool.drop(x)
		return
	}
	if p.end.put(x, unicast) && p.heard == reliable.Never {
		p.heard = p.sim.now.Add(p.end.wake)
	}
	p.turn()
}

// freeze stops the process for d: none of its timers and tasks runs, and packets wait in its receive queue.
func (p *process) freeze(d time.Duration) {
	p.frozen = max(p.frozen, p.sim.now.Add(d))
	p.sim.at(d, func() {
		if p.sim.now >= p.frozen {
			p.frozen, p.changed = 0, true
			p.turn()
		}
	})
}
