package engine

// expect sets until when the stream expects more data of the group. Until then no heartbeat need say that there is none
// (docs/protocol §5.2). With an open train, that is when the train will have been sent. Otherwise, while the bus sends
// without a pause, it is as long as that may continue: a heartbeat after each message of many groups would delay
// messages of other groups. Under mu.
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
