package inspect

import (
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// LossRecord is what a bus lost in the last hour, and what it could repair: stats.LossRecord.
type LossRecord struct {
	From       time.Time           `json:"from"` // nothing is missing from here on
	To         time.Time           `json:"to"`
	Losses     []Loss              `json:"losses,omitempty"`  // the oldest first
	Older      []stats.OlderLosses `json:"older,omitempty"`   // that are not listed one by one
	Minutes    []stats.LossMinute  `json:"minutes,omitempty"` // the oldest first
	Unrecorded uint64              `json:"unrecorded,omitempty"`
}

// Loss is one or several losses of one place within a minute, or an event that goes with loss: stats.LossEntry.
type Loss struct {
	First          time.Time `json:"first"`
	Last           time.Time `json:"last"`
	Cause          string    `json:"cause"` // label of a cause, or of an event
	Event          bool      `json:"event,omitempty"`
	Topic          string    `json:"topic,omitempty"`        // empty: none, or not known
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
	Unknown        uint64    `json:"unknown,omitempty"`  // of times: how many messages is not known
	For            float64   `json:"for_s,omitempty"`
	Behind         uint64    `json:"behind,omitempty"` // packets
	Error          string    `json:"error,omitempty"`
}
