package engine

import "time"

// awaitEach is how far heartbeats of one publication that waits for subscribers are
// apart for each that waits: all together send a thousand a second at most.
const awaitEach = time.Millisecond

// await hastens the publication's heartbeats until done is called, unless n subscribers
// of topic are there (docs/protocol §5.7).
func (p *Publication) await(topic uint64, n int) (done func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known, _ := p.s.Ask(p.l.now(), topic); known >= n {
		return func() {}
	}
	p.s.Await(p.l.now(), time.Duration(p.l.hellos.waiting.Load())*awaitEach)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.s.Awaited()
	}
}
