package worker

import "math/rand/v2"

// Order is the order of topics in which a publisher publishes.
type Order string

// Orders.
const (
	OrderRound  Order = "round"
	OrderZipf   Order = "zipf"
	OrderBursts Order = "bursts"
)

// Text describes the order.
func (o Order) Text() string {
	switch o {
	case OrderZipf:
		return "random, with most messages on few topics"
	case OrderBursts:
		return "runs of 10 to 100 messages on one topic"
	}
	return "one message on each topic in turn"
}

// Orders returns all orders.
func Orders() []Order { return []Order{OrderRound, OrderZipf, OrderBursts} }

const (
	// zipfExponent: the k-th topic has a share proportional to 1/k^1.1.
	zipfExponent = 1.1
	// A run of OrderBursts has burstMin to burstMax messages.
	burstMin, burstMax = 10, 100
	// scheduleMin is the minimum length of a random schedule before it repeats, and scheduleTimes the
	// number of messages for each topic.
	scheduleMin, scheduleTimes = 1 << 16, 16
)

// schedule is the sequence of topics of a goroutine's messages, which repeats. It is computed before the measurement.
type schedule struct {
	topics []uint32
	at     int
}

// newSchedule makes a schedule for one of several goroutines. With OrderRound they begin at different topics.
func newSchedule(order Order, topics, goroutine, goroutines int, seed uint64) schedule {
	r := rand.New(rand.NewPCG(seed, uint64(goroutine)))
	var s schedule
	switch order {
	case OrderZipf:
		draw := rand.NewZipf(r, zipfExponent, 1, uint64(topics-1))
		for range max(scheduleMin, scheduleTimes*topics) {
			s.topics = append(s.topics, uint32(draw.Uint64()))
		}
	case OrderBursts:
		for len(s.topics) < scheduleMin {
			for _, t := range r.Perm(topics) {
				for range burstMin + r.IntN(burstMax-burstMin+1) {
					s.topics = append(s.topics, uint32(t))
				}
			}
		}
	default:
		for t := range topics {
			s.topics = append(s.topics, uint32(t))
		}
		s.at = goroutine * topics / goroutines
	}
	return s
}

// next returns the topic of the next message.
func (s *schedule) next() uint32 {
	t := s.topics[s.at]
	if s.at++; s.at == len(s.topics) {
		s.at = 0
	}
	return t
}
