package engine

import "time"

// awaitEach, times the number of goroutines that wait, is the interval of a waiting publication's heartbeats, so that
// all together send at most a thousand a second.
const awaitEach = time.Millisecond

// await makes the publication send more heartbeats until done is called, unless n subscribers of topic are present
// (docs/protocol §5.7).
func (p *Publication) await(topic uint64, n int) (done func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known, _ := p.m.Ask(p.l.now(), topic); known >= n {
		return func() {}
	}
	p.s.Await(p.l.now(), time.Duration(p.l.hellos.waiting.Load())*awaitEach)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.s.Awaited()
	}
}
