// Package top is the command fanfare top: the buses of a host (package inspect) as rates, rows and text. Figures are
// computed from two observations, tables from figures, and text from tables.
package top

import (
	"encoding/json"
	"math"
	"time"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/losses"
	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

type Observation struct {
	Time time.Time
	Seen []inspect.Seen
}

// Figures are all that is shown of two observations: rates are those between them. They are what -json writes.
type Figures struct {
	Type          string         `json:"type"` // "top"
	Time          time.Time      `json:"time"`
	Interval      float64        `json:"interval_s"` // between the observations; 0: there is one only, and no rates
	Host          Host           `json:"host"`
	Total         Total          `json:"total"`
	Buses         []Bus          `json:"buses"`
	Topics        []Topic        `json:"topics"`
	Subscriptions []Subscription `json:"subscriptions"`
	Streams       []Stream       `json:"streams"`
	Subscribers   []Subscriber   `json:"subscribers"`
	Groups        []Group        `json:"groups"`
	Losses        []Loss         `json:"losses"`
	Legs          []Leg          `json:"legs"`
	Events        []Event        `json:"events"`
	Failed        []Failed       `json:"failed,omitempty"`

	shownEvents  []Event // Events with those of all groups as one
	undetected   []losses.Undetected
	undetectedAt map[undetectedKey]*losses.Undetected
	made         []*table // by view; nil: not yet
}

// Rate is a number per second between two observations, or another figure; NaN, and null in JSON, if it is not known.
type Rate float64

var unknown = Rate(math.NaN())

func (r Rate) known() bool { return !math.IsNaN(float64(r)) }

func (r Rate) MarshalJSON() ([]byte, error) {
	if !r.known() {
		return []byte("null"), nil
	}
	return json.Marshal(float64(r))
}

// add is the sum of two, as far as they are known, and most the larger one.
func (r Rate) add(x Rate) Rate    { return either(r, x, r+x) }
func (r Rate) larger(x Rate) Rate { return either(r, x, max(r, x)) }

func either(a, b, both Rate) Rate {
	switch {
	case !a.known():
		return b
	case !b.known():
		return a
	}
	return both
}

type Of struct {
	Process string `json:"process"` // program and number
	PID     int    `json:"pid"`
	Bus     string `json:"bus"` // its name, or its id
	BusID   string `json:"bus_id"`

	key busKey // of several buses with the same name and number of a process, as containers have them
}

type Host struct {
	Name             string `json:"name"`
	ReceiveBufferMax int    `json:"receive_buffer_max"` // bytes, net.core.rmem_max; 0: not known
	Sockets          int    `json:"sockets"`            // with buffers that are known
	SmallSockets     int    `json:"small_sockets"`      // of them, those that got a smaller receive buffer than they asked for
}

type Total struct {
	losses.Repairs        // of all buses, since they were opened
	Processes      int    `json:"processes"`
	SentRate       Rate   `json:"sent_messages_per_s"`
	SentBytesRate  Rate   `json:"sent_bytes_per_s"`
	ReceivedRate   Rate   `json:"received_packets_per_s"`
	ReceivedBytes  Rate   `json:"received_bytes_per_s"`
	DeliveredRate  Rate   `json:"delivered_messages_per_s"`
	RepairRate     Rate   `json:"repaired_packets_per_s"`
	RepairsSent    Rate   `json:"repairs_sent_per_s"`
	MissingRate    Rate   `json:"missing_packets_per_s"`
	LostMessages   uint64 `json:"lost_messages"` // since the buses were opened
	Gaps           uint64 `json:"gaps"`
	RepairP50      Rate   `json:"repair_p50_us"` // the worst of all buses; null: nothing was repaired
	RepairP99      Rate   `json:"repair_p99_us"`
	DeliveryP50    Rate   `json:"delivery_p50_us"` // the worst of all buses; null: nothing was timed
	DeliveryP99    Rate   `json:"delivery_p99_us"`
	SocketDropRate Rate   `json:"socket_drops_per_s"`
}

type Bus struct {
	Of
	URLs          []string         `json:"urls"`
	Since         time.Time        `json:"since"`
	State         string           `json:"state"` // ok, unheard, busy, closing, failed
	Problem       string           `json:"problem,omitempty"`
	SentRate      Rate             `json:"sent_messages_per_s"`
	ReceivedRate  Rate             `json:"received_packets_per_s"`
	DeliveredRate Rate             `json:"delivered_messages_per_s"`
	Buffers       inspect.Buffers  `json:"buffers"` // of the first leg that has some
	SocketDrops   uint64           `json:"socket_drops"`
	DropRate      Rate             `json:"socket_drops_per_s"`
	GSO           bool             `json:"gso"`
	GRO           bool             `json:"gro"`
	Repair        *inspect.Latency `json:"repair"` // null: nothing was repaired
	// Delivery is null where no delivery was timed: publishers have another clock.
	Delivery       *inspect.Latency `json:"delivery"`
	LostMessages   uint64           `json:"lost_messages"`
	losses.Repairs                  // since it was opened
	// TopicsLeftOut and SubscriptionsLeftOut are how many are not listed: topics with fewer
	// messages than those that are, and later subscriptions.
	TopicsLeftOut        int `json:"topics_left_out,omitempty"`
	SubscriptionsLeftOut int `json:"subscriptions_left_out,omitempty"`

	seen *inspect.Bus
}

type Topic struct {
	Of
	Topic       string `json:"topic"`
	Group       string `json:"group"`
	Rate        Rate   `json:"messages_per_s"`
	Messages    uint64 `json:"messages"`
	Subscribers int    `json:"subscribers"`
	Behind      uint64 `json:"behind"` // packets, by which the furthest subscriber of the group is behind
	Slow        int    `json:"slow"`   // subscribers of the group that hold it up, or are not waited for
	Gone        int    `json:"gone"`   // subscribers of the group that were given up within the last minute
	// Stuck is for how long nothing of the group could be sent, if that is a second or more.
	Stuck float64 `json:"stuck_s,omitempty"`
}

type Subscription struct {
	Of
	Number   uint64             `json:"number"`
	Topics   []string           `json:"topics"`
	Policy   string             `json:"policy"`
	Handler  bool               `json:"handler"`
	Rate     Rate               `json:"messages_per_s"`
	Messages uint64             `json:"messages"`
	Pending  int                `json:"pending"` // packets
	Lost     uint64             `json:"lost_messages"`
	Gaps     uint64             `json:"gaps"`
	Causes   []stats.CauseCount `json:"causes,omitempty"`
	Unread   float64            `json:"unread_s"`   // that it has held a publisher up and read nothing
	Peers    int                `json:"publishers"` // that are there
	// LostFor is how long ago the publisher was lost that was lost last, and is not back; 0: none was.
	LostFor float64 `json:"publisher_lost_s,omitempty"`
	// State is ok, unread (for more than 1 s), publisher lost, behind (three quarters of its window are not read),
	// losing (it lost messages within the last minute), lost, no publisher or ended.
	State string `json:"state"`
	Ended string `json:"ended,omitempty"`

	hearing losses.Hearing
	seen    *inspect.Subscription
}

type Stream struct {
	Of
	Publisher  string    `json:"name"` // or its id
	ID         string    `json:"publisher"`
	Epoch      events.ID `json:"epoch"`
	Group      string    `json:"group"`
	Rate       Rate      `json:"packets_per_s"`
	RepairRate Rate      `json:"repaired_per_s"`
	Packets    uint64    `json:"packets"`
	Repaired   uint64    `json:"repaired"`
	Missing    int       `json:"missing"`
	Lost       uint64    `json:"lost_packets"`
	Lag        int       `json:"lag"` // of the subscription that is furthest behind
	// LostFor is how long ago the publisher was lost; 0: it is there.
	LostFor float64 `json:"publisher_lost_s,omitempty"`
}

type Subscriber struct {
	Of                // the publisher
	Subscriber string `json:"name"`
	ID         string `json:"subscriber"`
	Address    string `json:"address"`
	Tag        string `json:"tag,omitempty"`
	Group      string `json:"group"`
	Behind     uint64 `json:"behind"` // packets
	Room       uint64 `json:"room"`
	// State is ok, holds (it blocks the publisher), released (it is not waited for), silent (it does not answer, or has
	// sent nothing for 3 s), gone (it was given up for that, within the last minute) or behind (three quarters of its
	// window are not read).
	State   string  `json:"state"`
	HeldFor float64 `json:"held_s"`
	Heard   float64 `json:"heard_s"`
}

// Group is a group of a fabric, and the processes that use it on this host or were received in it.
type Group struct {
	Group       string   `json:"group"`
	Interface   string   `json:"interface,omitempty"` // or those of all legs; the same group on two is two networks'
	Publishers  []string `json:"publishers"`          // names
	Subscribers []string `json:"subscribers"`         // names
	SentRate    Rate     `json:"sent_packets_per_s"`
	Received    Rate     `json:"received_packets_per_s"` // the most that one bus receives
	RepairRate  Rate     `json:"repairs_sent_per_s"`
	NAKRate     Rate     `json:"naks_per_s"`
	Unjoined    int      `json:"unjoined"` // buses that wait to join
}

type Loss struct {
	Of
	stats.CauseCount
	Rate Rate   `json:"dropped_per_s"`
	Do   string `json:"do"` // what to do about it, here
}

type Leg struct {
	Of
	URL    string  `json:"url"`
	Up     bool    `json:"up"`
	Silent int     `json:"silent"`
	Skew   float64 `json:"skew_us"`
	Rate   Rate    `json:"packets_per_s"`
	Lost   uint64  `json:"lost"`
	Filled uint64  `json:"filled"`
}

// Event is an event of a bus, or several that differ in their counts and times only: the latest of them.
type Event struct {
	Of
	Event inspect.Event `json:"event"`
	Times uint64        `json:"times"`

	same   string // equal for the same event in other groups
	groups int    // in which it happened
}

type Failed struct {
	Socket string `json:"socket"`
	Error  string `json:"error"`
}

func (s *Subscriber) slow() bool { return s.State != stateOK }

const (
	stateOK         = "ok"
	stateUndetected = "unheard" // no peer was ever detected on its interface
	stateLosing     = "losing"  // a subscription that lost messages within the last minute
	stateLost       = "lost"    // and before
	stateBusy       = "busy"
	stateClosing    = "closing"
	stateFailed     = "failed"
)
