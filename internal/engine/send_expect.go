package engine

// expect tells the stream until when more data is expected in the group: until then it need not be said that there is none
// (docs/protocol.md §5.2). That is when the train that is open now will have been sent. Else, in a row of sends of the bus,
// it is as long as the row may go on: to follow each message of many groups with a heartbeat would have messages of other
// groups wait. Under mu.
func (p *Publication) expect() {
	until, saturated := p.l.departure.parked()
	switch {
	case p.open.opened != 0:
		until = p.l.departure.loopDue(p.open.opened)
	case saturated:
		until = min(until, p.sent.Add(2*loopPark))
	default:
		until = 0
	}
	p.s.Expect(until)
}
