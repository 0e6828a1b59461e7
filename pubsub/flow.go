package pubsub

import (
	"time"

	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// NoStallLimit as Config.StallLimit waits for subscribers for ever, as long as they are there.
const NoStallLimit time.Duration = -1

// Receivers are the buses with a subscription of the topic that are known to be present, in no order.
func (p *Publisher) Receivers() []stats.Subscriber { return p.p.Members(p.topic.ID) }
