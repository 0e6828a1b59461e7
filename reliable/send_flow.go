package reliable

// FlowControl decides how far a publisher may run ahead of its subscribers.
// docs/protocol.md §8.1.
type FlowControl interface {
	// Name is what the strategy is called in configuration and statistics.
	Name() string
	// Holds reports whether the publisher waits for m: keeps to its limit,
	// keeps what it lacks, and asks it for a sign of life when it is silent.
	Holds(m *Member) bool
}

// MinFlow waits for every subscriber: the publisher never outruns the window
// of the slowest one that is present. With no subscriber it runs free.
type MinFlow struct{}

func (MinFlow) Name() string       { return "min" }
func (MinFlow) Holds(*Member) bool { return true }

// NoFlow waits for nobody: a subscriber that is too slow, or away for longer
// than the window lasts, has gaps. Limit the rate to what all can take.
type NoFlow struct{}

func (NoFlow) Name() string       { return "none" }
func (NoFlow) Holds(*Member) bool { return false }

// flowState is what the members add up to.
type flowState struct {
	limit uint64 // first sequence that may not be assigned
	floor uint64 // lowest sequence that a held member lacks
	free  bool   // there are members, and the publisher waits for none by its strategy
	held  bool   // what has its sequence waits
}

const noLimit = 1 << 63

// recompute is called whenever a member has come, changed or gone.
func (f *flowState) recompute(s *Sender) {
	f.limit, f.floor, f.free = noLimit, noLimit, len(s.members.list) > 0
	for _, m := range s.members.list {
		if !s.cfg.Flow.Holds(m) {
			continue
		}
		if f.free = false; m.waitedFor() {
			f.limit = min(f.limit, m.Limit)
			f.floor = min(f.floor, m.Next)
		}
	}
}
