package pubsub

import "github.com/fanfaremq/fanfare/pubsub/stats"

// Receivers are the buses with a subscription to the topic that are known to be present, in no particular order.
func (p *Publisher) Receivers() []stats.Subscriber { return p.p.Members(p.topic.ID) }
