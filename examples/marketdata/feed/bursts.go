package feed

import (
	"math"
	"math/rand/v2"
	"time"
)

// bursts is when messages come: a Hawkes process. Every message raises the intensity for a while, so that messages
// bring further messages, as orders do that react to each other. Of a message's descendants the first generation counts
// branching on average, so the process as a whole is 1/(1-branching) times its background.
type bursts struct {
	background float64 // messages per second that no other message brought
	excited    float64 // messages per second above the background, just now
	decay      float64 // per second: how fast excited goes down
}

// branching is how many messages a message brings directly, on average. At
// 0.85 the number of messages in a window that is long against the decay
// varies (1/(1-0.85))² = 44 times as much as that of independent messages.
const branching = 0.85

// memory is over how many mean intervals between messages the excitement decays: long enough for bursts of hundreds.
const memory = 100

func newBursts(rate float64) bursts {
	return bursts{
		background: rate * (1 - branching),
		excited:    rate * branching, // its mean, so that the day does not start with a silence
		decay:      rate / memory,
	}
}

// next returns the time to the next message. It is Ogata's thinning: candidates come at the present intensity, which
// can only go down until the next one, and are accepted in the proportion to which it has gone down.
func (b *bursts) next(rnd *rand.Rand) time.Duration {
	var seconds float64
	for {
		most := b.background + b.excited
		dt := rnd.ExpFloat64() / most
		seconds += dt
		b.excited *= math.Exp(-b.decay * dt)
		if rnd.Float64()*most <= b.background+b.excited {
			b.excited += branching * b.decay
			return time.Duration(seconds * float64(time.Second))
		}
	}
}
