package inspect

import (
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// LossRecord has the losses and repairs of a bus in the last hour: stats.LossRecord.
type LossRecord struct {
	From       time.Time           `json:"from"` // the record is complete from this time on
	To         time.Time           `json:"to"`
	Losses     []Loss              `json:"losses,omitempty"`  // oldest first
	Older      []stats.OlderLosses `json:"older,omitempty"`   // losses that are not listed individually
	Minutes    []stats.LossMinute  `json:"minutes,omitempty"` // oldest first
	Unrecorded uint64              `json:"unrecorded,omitempty"`
}

// Loss is one or several losses with the same circumstances within a minute, or an event related to losses:
// stats.LossEntry.
type Loss struct {
	First          time.Time `json:"first"`
	Last           time.Time `json:"last"`
	Cause          string    `json:"cause"` // label of a cause, or of an event
	Event          bool      `json:"event,omitempty"`
	Topic          string    `json:"topic,omitempty"`        // empty: none or unknown
	Subscription   string    `json:"subscription,omitempty"` // its topics
	Group          string    `json:"group,omitempty"`        // address
	Leg            string    `json:"leg,omitempty"`          // URL
	Publisher      string    `json:"publisher,omitempty"`    // id
	PublisherName  string    `json:"publisher_name,omitempty"`
	Epoch          events.ID `json:"epoch,omitempty"`
	Address        string    `json:"address,omitempty"`    // of the publisher or subscriber
	Subscriber     string    `json:"subscriber,omitempty"` // id
	SubscriberName string    `json:"subscriber_name,omitempty"`
	Times          uint64    `json:"times"` // gaps, or events
	Number         uint64    `json:"number,omitempty"`
	Messages       uint64    `json:"messages,omitempty"` // as far as known
	Unknown        uint64    `json:"unknown,omitempty"`  // part of times with an unknown number of messages
	For            float64   `json:"for_s,omitempty"`
	Behind         uint64    `json:"behind,omitempty"` // packets
	Error          string    `json:"error,omitempty"`
}
