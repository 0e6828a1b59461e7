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
	node
	virtual.Tasks
	run     int          // number of the current loop, so that timers of an earlier one are ignored
	loop    *engine.Loop // nil: not running
	end     *endpoint
	due     reliable.Instant // deadline of the loop, with the delay of its timer
	heard   reliable.Instant // when the packets in the receive queue are noticed; Never: it is empty
	busy    reliable.Instant // it handles packets until then
	running bool             // in turn
	changed bool             // tasks may be able to continue
	check   func()           // called after each turn
}

// background is the context of calls that may wait forever.
var background = context.Background()

// open opens a loop.
func (p *process) open(end *endpoint, c engine.Config, log slog.Handler) {
	p.run++
	p.end, p.due, p.heard, p.busy, p.changed = end, 0, reliable.Never, 0, true
	c.Virtual, c.Clock, c.Logger = p, p.sim.clock(), slog.New(log)
	p.loop = engine.Open(end.transport(), c)
}

// kill ends the process at once, without a trace.
func (p *process) kill() {
	p.end.kill()
	p.run++
	p.loop, p.deadline = nil, reliable.Never
	p.Tasks.Stop()
}

// Now implements engine.Virtual.
func (p *process) Now() reliable.Instant { return p.now() }

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
	if p.running {
		return
	}
	p.running = true
	defer func() { p.running = false }()
	for turns := 0; p.loop != nil && p.sim.err == nil; turns++ {
		ran := p.changed && p.Tasks.Run()
		if p.changed = false; p.loop == nil {
			return
		}
		if wait := p.wait(); wait > p.sim.now {
			if !ran {
				p.deadline = wait
				p.arm()
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
	return max(min(at, p.due, p.end.freed()), p.busy, p.frozen)
}

func (p *process) step() {
	p.end.woken, p.heard, p.end.polled = false, reliable.Never, 0
	p.end.complete()
	if p.due = p.loop.Step(); p.due != reliable.Never {
		if p.due -= p.offset; p.due > p.sim.now {
			p.due = p.due.Add(p.sim.net.upTo(p.late))
		}
	}
	if len(p.end.rx) > 0 {
		p.heard = p.sim.now
	}
	p.busy = p.sim.now.Add(time.Duration(p.end.polled) * p.end.service)
	p.changed = true
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
	if p.frozen == 0 {
		p.turn()
	}
}
