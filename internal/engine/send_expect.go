package engine

// expect sets until when the stream expects more data in the group: until then no heartbeat has to say that there
// is none (docs/protocol §5.2). That is when the train that is open now will have been sent. Otherwise, in a row
// of sends of the bus, it is as long as the row may continue: a heartbeat after each message of many groups would
// delay messages of other groups. Under mu.
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
