package driver

import "fmt"

// UnsentError is why a loop did not end in order: messages that were taken were never sent.
type UnsentError struct {
	Messages uint64
	Err      error // what kept them from being sent
}

func (e *UnsentError) Error() string {
	what := "1 message was"
	if e.Messages != 1 {
		what = fmt.Sprintf("%d messages were", e.Messages)
	}
	return fmt.Sprintf("%s published and never sent, for lack of time: %v", what, e.Err)
}

// Unwrap returns what kept them from being sent.
func (e *UnsentError) Unwrap() error { return e.Err }

// unsent is how many messages of a publication that was killed were taken and never sent.
func (p *Publication) unsent() (n uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.takeShared()
	n = p.shared.w.UnsentMessages()
	if p.memory.own != nil { // else the transport has failed
		n += p.s.UnsentMessages()
	}
	for _, x := range p.owned {
		for !p.seize(x) {
			yield() // it is about to leave
		}
		n += x.w.UnsentMessages()
	}
	return n
}
