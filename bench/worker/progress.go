package worker

// Moment is how many messages a subscriber had at an instant of the host's monotonic clock (Now), in nanoseconds.
type Moment struct {
	At       int64  `json:"at"`
	Messages uint64 `json:"messages"`
}

// progress are moments of a subscriber, some apart. The zero value notes none.
type progress struct {
	apart int64 // ns
	next  int64
	all   []Moment
}

const (
	// momentsARun is how many moments a run has, at most one in leastApart.
	momentsARun = 1000
	leastApart  = 1e6 // ns
)

// newProgress is for a run of ns nanoseconds.
func newProgress(ns int64) progress {
	return progress{apart: max(ns/momentsARun, leastApart), all: make([]Moment, 0, 2*momentsARun)}
}

// mark notes how many messages had come at now, if it is time to.
func (p *progress) mark(now int64, messages uint64) {
	if p.apart > 0 && now >= p.next && len(p.all) < cap(p.all) {
		p.all = append(p.all, Moment{now, messages})
		p.next = now + p.apart
	}
}
