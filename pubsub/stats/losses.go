package stats

import (
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// LossRecord is what a bus lost in the last hour, and what it lost on the way and could repair. It takes 750 KiB at
// most: of each cause the newest 64 losses are listed, and the others counted.
type LossRecord struct {
	// From and To bound the time that it covers: the last hour, or the time since the bus was opened.
	From, To time.Time
	// Losses are those of this bus's subscriptions, and events that go with loss here or at another bus, oldest first.
	Losses []LossEntry
	Older  []OlderLosses // of causes with more than 64 losses
	// Minutes are sums of the minutes in which something was lost, dropped or repaired, oldest first. A packet is
	// counted some ten seconds late at most.
	Minutes    []LossMinute
	Unrecorded uint64 // losses without room in the record: zero, unless there are more causes than are known today
}

// LossEntry is one or several losses of the same topic, subscription, publisher and cause that followed each other
// within a minute. Or it is an event that goes with loss.
type LossEntry struct {
	First, Last time.Time // when it was reported
	Cause       string    // label of a cause, or of a kind of event if it is an event
	// Event: a publisher fell silent, a subscription was ended, a subscriber was released. Messages lost by that are
	// an entry of their own, or are known to another bus only.
	Event        bool
	Topic        string // empty: none, or not known
	Subscription string // topics of the subscription that lost the messages, the first four
	Group        string // address
	Leg          string // of an event of one: the URL that it was opened by
	// Publisher is that of the messages, and Epoch its instance. Of an event that concerns a subscriber of this bus's
	// publishers both are 0, and Subscriber is its random id. Name and Address are those of the publisher or
	// subscriber, as last known.
	Publisher     events.ID
	Epoch         events.ID
	Subscriber    events.ID
	Name, Address string
	Times         uint64 // number of gaps, or of events
	Number        uint64 // of the first message lost
	Messages      uint64 // messages lost, as far as known
	Unknown       uint64 // of Times: the number of messages cannot be known
	// For and Behind, in packets, are those of the latest event, and Err is the text of its error.
	For    time.Duration
	Behind uint64
	Err    string
}

// OlderLosses are losses of one cause that are not listed one by one.
type OlderLosses struct {
	Cause    string    `json:"cause"` // label
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
	Times    uint64    `json:"times"`    // gaps, or events
	Messages uint64    `json:"messages"` // messages lost, as far as known
}

// LossMinute is what was lost, dropped and repaired in one minute.
type LossMinute struct {
	Start         time.Time    `json:"start"`                    // the whole minute
	Causes        []CauseCount `json:"causes,omitempty"`         // with a count above zero
	Missing       uint64       `json:"missing,omitempty"`        // packets that were found missing
	Repaired      uint64       `json:"repaired,omitempty"`       // of Missing: that arrived as repairs
	Late          uint64       `json:"late,omitempty"`           // of Missing: that arrived by themselves
	Ways          []LossWay    `json:"ways,omitempty"`           // the eight publishers with the most packets missing
	OtherRepaired uint64       `json:"other_repaired,omitempty"` // packets of the other publishers
	OtherLost     uint64       `json:"other_lost,omitempty"`     // packets of the other publishers
}

// CauseCount is what was counted of a cause.
type CauseCount struct {
	Cause    string `json:"cause"`              // label
	Dropped  uint64 `json:"dropped,omitempty"`  // packets dropped here or lost on the way
	Lost     uint64 `json:"lost,omitempty"`     // packets given up permanently
	Gaps     uint64 `json:"gaps,omitempty"`     // delivered to subscriptions
	Messages uint64 `json:"messages,omitempty"` // messages lost in Gaps, as far as known
}

// LossWay is what was missing of one publisher in one group.
type LossWay struct {
	Publisher events.ID `json:"publisher"`
	Name      string    `json:"name,omitempty"`
	Epoch     events.ID `json:"-"`
	Address   string    `json:"address,omitempty"`
	Group     string    `json:"group"`
	Repaired  uint64    `json:"repaired,omitempty"` // packets that had been missing and arrived as repairs
	Lost      uint64    `json:"lost,omitempty"`     // packets given up permanently
}
