package losses

import "github.com/fanfaremq/fanfare/internal/inspect"

// SendsNothing is the state of a publication of which nothing could be sent for stuckAfter.
const SendsNothing = "sends nothing"

const stuckAfter = 1.0 // seconds: when a bus says so itself

// PublicationState is how a publication does; empty: it sends.
func PublicationState(p *inspect.Publication) string {
	if p.Stuck >= stuckAfter {
		return SendsNothing
	}
	return ""
}
