package engine

// expect tells the stream when the train that is open now will have been sent: until then it need not be said that there
// is no more data (docs/protocol.md §5.2). Under mu.
func (p *Publication) expect() {
	last := p.open.opened
	if last != 0 {
		last = p.l.departure.loopDue(last)
	}
	p.s.Expect(last)
}
