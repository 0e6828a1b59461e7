package worker

import "math/rand/v2"

// Order is the order in which a publisher goes through its topics.
type Order string

// Orders.
const (
	OrderRound  Order = "round"
	OrderZipf   Order = "zipf"
	OrderBursts Order = "bursts"
)

// Text says what the order is.
func (o Order) Text() string {
	switch o {
	case OrderZipf:
		return "drawn, few topics have most"
	case OrderBursts:
		return "runs of 10 to 100 messages on one topic"
	}
	return "one message on each in turn"
}

// Orders are all of them.
func Orders() []Order { return []Order{OrderRound, OrderZipf, OrderBursts} }

const (
	// zipfExponent is how fast topics get rarer: the k-th has a share of 1/k^1.1.
	zipfExponent = 1.1
	// A run of OrderBursts has burstLeast to burstMost messages.
	burstLeast, burstMost = 10, 100
	// scheduleLeast is how many messages a drawn schedule has at least before it
	// begins again, and scheduleTimes how many for each topic.
	scheduleLeast, scheduleTimes = 1 << 16, 16
)

// schedule is the topics of a goroutine's messages, one after the other and again from
// the beginning. It is drawn before the measurement.
type schedule struct {
	topics []uint32
	at     int
}

// newSchedule draws a schedule for one of several goroutines. Going round they begin at different topics.
func newSchedule(order Order, topics, goroutine, goroutines int, seed uint64) schedule {
	r := rand.New(rand.NewPCG(seed, uint64(goroutine)))
	var s schedule
	switch order {
	case OrderZipf:
		draw := rand.NewZipf(r, zipfExponent, 1, uint64(topics-1))
		for range max(scheduleLeast, scheduleTimes*topics) {
			s.topics = append(s.topics, uint32(draw.Uint64()))
		}
	case OrderBursts:
		for len(s.topics) < scheduleLeast {
			for _, t := range r.Perm(topics) {
				for range burstLeast + r.IntN(burstMost-burstLeast+1) {
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

// next is the topic of the next message.
func (s *schedule) next() uint32 {
	t := s.topics[s.at]
	if s.at++; s.at == len(s.topics) {
		s.at = 0
	}
	return t
}
