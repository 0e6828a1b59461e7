package bench

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fanfaremq/fanfare/bench/contenders"
	"github.com/fanfaremq/fanfare/bench/worker"
)

// Shape is how many publish, on how many topics, and who takes them.
type Shape worker.Shape

// Many reports whether there is more than one of anything, so that one of each is
// measured beside it.
func (s *Shape) Many() bool {
	return s.Topics > 1 || s.Goroutines > 1 || s.Buses > 1 || s.Extra > 0
}

// Limits of a shape.
const (
	maxTopics     = 100_000
	maxGoroutines = 64
	maxBuses      = 64 // pubsub.Config.MaxPublishers, by default
	maxBatch      = 1024
)

func (s *Settings) checkShape() error {
	switch {
	case s.Topics < 1 || s.Topics > maxTopics:
		return fmt.Errorf("-topics %d must be from 1 to %d", s.Topics, maxTopics)
	case !slices.Contains(worker.Orders(), s.Order):
		return fmt.Errorf("-order %q is not one of %s", s.Order, joined(worker.Orders()))
	case s.Goroutines < 1 || s.Goroutines > maxGoroutines:
		return fmt.Errorf("-goroutines %d must be from 1 to %d", s.Goroutines, maxGoroutines)
	case s.Buses < 1 || s.Buses > maxBuses:
		return fmt.Errorf("-pubs %d must be from 1 to %d", s.Buses, maxBuses)
	case s.Extra < 0 || s.Extra > maxTopics:
		return fmt.Errorf("-extra-subscriptions %d must be from 0 to %d", s.Extra, maxTopics)
	case s.Topics*s.Goroutines*s.Buses > worker.MaxSeries:
		return fmt.Errorf("-topics %d by -goroutines %d by -pubs %d are more than %d, which subscribers can check", s.Topics, s.Goroutines, s.Buses, worker.MaxSeries)
	case s.Split && s.Subs < 2:
		return errors.New("-split shares the topics among subscribers: give -subs too, such as 4")
	case s.Split && s.Topics < s.Subs:
		return fmt.Errorf("-split needs a topic for each subscriber: give -topics too, at least %d", s.Subs)
	case s.Batch < 0 || s.Batch > maxBatch || s.Batch&(s.Batch-1) != 0:
		return fmt.Errorf("-batch %d must be a power of two up to %d", s.Batch, maxBatch)
	case s.Batch > 0 && s.Many():
		return errors.New("-batch is of one publisher on one topic: leave -topics and the like out")
	}
	return nil
}

func joined[T ~string](list []T) string {
	var words []string
	for _, w := range list {
		words = append(words, string(w))
	}
	return strings.Join(words, ", ")
}

// unsupported is the first flag of this shape that a baseline cannot follow; empty if
// there is none.
func (s *Shape) unsupported(name string, baseline worker.Contender) string {
	_, topical := baseline.(worker.Topical)
	for _, f := range []struct {
		flag  string
		given bool
	}{
		{"-topics", s.Topics > 1 && !topical}, {"-goroutines", s.Goroutines > 1}, {"-pubs", s.Buses > 1},
		{"-split", s.Split}, {"-extra-subscriptions", s.Extra > 0},
	} {
		if f.given && name != contenders.UDP { // which is Fanfare
			return f.flag
		}
	}
	return ""
}

// text describes the shape, where it is not the simplest one.
func (s *Shape) text() string {
	var parts []string
	if s.Topics > 1 {
		parts = append(parts, fmt.Sprintf("%d topics, %s", s.Topics, map[worker.Order]string{
			worker.OrderRound: "one message on each in turn", worker.OrderZipf: "drawn by Zipf's law", worker.OrderBursts: "in runs of 10 to 100 messages",
		}[s.Order]))
	}
	if s.Goroutines > 1 {
		parts = append(parts, fmt.Sprintf("%d publishing goroutines", s.Goroutines))
	}
	if s.Buses > 1 {
		parts = append(parts, fmt.Sprintf("%d publishers", s.Buses))
	}
	if s.Extra > 0 {
		parts = append(parts, fmt.Sprintf("%d subscriptions to other topics", s.Extra))
	}
	return strings.Join(parts, ", ")
}

// flags are those that ask for this shape.
func (s *Shape) flags() (list []string) {
	for _, f := range []struct {
		flag string
		val  int
		from int // the least that is not the default
	}{{"-topics", s.Topics, 2}, {"-goroutines", s.Goroutines, 2}, {"-pubs", s.Buses, 2}, {"-extra-subscriptions", s.Extra, 1}} {
		if f.val >= f.from {
			list = append(list, fmt.Sprintf("%s %d", f.flag, f.val))
		}
		if f.flag == "-topics" && f.val > 1 && s.Order != worker.OrderRound {
			list = append(list, "-order "+string(s.Order))
		}
	}
	if s.Split {
		list = append(list, "-split")
	}
	return list
}
