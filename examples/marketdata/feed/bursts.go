package feed

import (
	"math"
	"math/rand/v2"
	"time"
)

// bursts generates the times of messages: a Hawkes process. Every message raises the intensity for a while,
// so that it causes further messages, like orders that react to each other. On average a message causes
// branching messages directly, so the rate of the process is 1/(1-branching) times its background.
type bursts struct {
	background float64 // messages per second that are not caused by others
	excited    float64 // messages per second above the background, at present
	decay      float64 // per second: decay rate of excited
}

// branching is the average number of messages caused directly by a message. At 0.85 the variance of the number of
// messages, in windows that are long compared with the decay, is (1/(1-0.85))² = 44 times that of independent messages.
const branching = 0.85

// memory is the decay time of the excitement in mean intervals between messages: long enough for bursts of hundreds.
const memory = 100

func newBursts(rate float64) bursts {
	return bursts{
		background: rate * (1 - branching),
		excited:    rate * branching, // its mean, so that the day does not begin with a pause
		decay:      rate / memory,
	}
}

// next returns the time to the next message. It is Ogata's thinning: candidates come at the present
// intensity, which can only decrease until the next one, and are accepted in proportion to the decrease.
func (b *bursts) next(rnd *rand.Rand) time.Duration {
	var seconds float64
	for {
		peak := b.background + b.excited
		dt := rnd.ExpFloat64() / peak
		seconds += dt
		b.excited *= math.Exp(-b.decay * dt)
		if rnd.Float64()*peak <= b.background+b.excited {
			b.excited += branching * b.decay
			return time.Duration(seconds * float64(time.Second))
		}
	}
}
