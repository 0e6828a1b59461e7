package pubsub

import (
	"time"

	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// NoStallLimit as Config.StallLimit makes publishers wait without limit for subscribers that are alive.
const NoStallLimit time.Duration = -1

// Receivers are the buses with a subscription to the topic that are known to be present, in no particular order.
func (p *Publisher) Receivers() []stats.Subscriber { return p.p.Members(p.topic.ID) }
