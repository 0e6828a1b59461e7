package driver

import "github.com/fanfaremq/fanfare/reliable"

// The open trains of a bus, as its batcher has them: which has waited for how long, and how they leave.

// waiting is a publication with an open train, whose first message came at since.
type waiting struct {
	p     *Publication
	since reliable.Instant
}

// opened notes that p has a train open since then.
func (b *batcher) opened(p *Publication, since reliable.Instant) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.waits {
		return
	}
	p.waits = true
	if b.head > 0 && len(b.open) == cap(b.open) {
		n := copy(b.open, b.open[b.head:])
		clear(b.open[n:])
		b.open, b.head = b.open[:n], 0
	}
	b.open = append(b.open, waiting{p, since})
	for i := len(b.open) - 1; i > b.head && b.open[i-1].since > since; i-- {
		b.open[i-1], b.open[i] = b.open[i], b.open[i-1]
	}
	b.schedule()
}

// next takes the publication whose train has waited for linger at now, if there is one.
func (b *batcher) next(now reliable.Instant) *Publication {
	if int64(now) < b.due.Load() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.schedule()
	if int64(now) < b.due.Load() {
		return nil
	}
	p := b.open[b.head].p
	p.waits = false
	b.open[b.head] = waiting{}
	b.head++
	b.schedule()
	return p
}

// schedule computes due. Under mu.
func (b *batcher) schedule() {
	due := reliable.Never
	if b.head < len(b.open) {
		due = b.open[b.head].since.Add(b.lingerLocked())
	}
	b.due.Store(int64(due))
}

// openTrains says how trains leave, to who fills one.
type openTrains uint8

const (
	loneTrain     openTrains = iota
	fullTrains               // one at a time, and each of many because it was full, also the last
	severalTrains            // more than one publication has an open train
)

// trains says it as of now.
func (b *batcher) trains() openTrains {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case len(b.open)-b.head > 1:
		return severalTrains
	case b.full >= saturatedSends && b.lastFull:
		return fullTrains
	}
	return loneTrain
}
