// Package top is fanfare top: what the processes of a host say of their buses (package
// inspect), as rates and rows, and on a terminal.
//
// Figures are made of two observations of all processes, purely (figures.go, rows.go);
// tables are made of figures (tables.go, detail.go) and text of tables (screen.go); keys
// change what is shown (keys.go). program.go is the terminal.
package top

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/inspect"
)

// Observation is what all processes have said at one time.
type Observation struct {
	Time time.Time
	Seen []inspect.Seen
}

// Figures are all that is shown of two observations: rates are those between them. They
// are what -json writes.
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
}

// Of says which bus of which process a row is about.
type Of struct {
	Process string `json:"process"` // program and number
	PID     int    `json:"pid"`
	Bus     string `json:"bus"` // its name, or its id
	BusID   string `json:"bus_id"`
}

// Host is the host's buffers.
type Host struct {
	Name             string `json:"name"`
	ReceiveBufferMax int    `json:"receive_buffer_max"` // bytes, net.core.rmem_max; 0: not known
	Sockets          int    `json:"sockets"`            // whose buffers are known
	SmallSockets     int    `json:"small_sockets"`      // of them, those that got a smaller receive buffer than they asked for
}

// Total is the sum of all buses.
type Total struct {
	Processes      int     `json:"processes"`
	SentRate       float64 `json:"sent_messages_per_s"`
	SentBytesRate  float64 `json:"sent_bytes_per_s"`
	ReceivedRate   float64 `json:"received_packets_per_s"`
	ReceivedBytes  float64 `json:"received_bytes_per_s"`
	DeliveredRate  float64 `json:"delivered_messages_per_s"`
	RepairRate     float64 `json:"repaired_packets_per_s"`
	RepairsSent    float64 `json:"repairs_sent_per_s"`
	MissingRate    float64 `json:"missing_packets_per_s"`
	DropRate       float64 `json:"dropped_packets_per_s"`
	LostMessages   uint64  `json:"lost_messages"` // since the buses were opened
	Gaps           uint64  `json:"gaps"`
	RepairP50      float64 `json:"repair_p50_us"` // the worst of all buses
	RepairP99      float64 `json:"repair_p99_us"`
	SocketDropRate float64 `json:"socket_drops_per_s"`
}

// Bus is one bus.
type Bus struct {
	Of
	URLs          []string        `json:"urls"`
	Since         time.Time       `json:"since"`
	State         string          `json:"state"` // ok, busy, closing, failed
	Problem       string          `json:"problem,omitempty"`
	SentRate      float64         `json:"sent_messages_per_s"`
	ReceivedRate  float64         `json:"received_packets_per_s"`
	DeliveredRate float64         `json:"delivered_messages_per_s"`
	Buffers       inspect.Buffers `json:"buffers"` // of the first leg that has some
	SocketDrops   uint64          `json:"socket_drops"`
	DropRate      float64         `json:"socket_drops_per_s"`
	GSO           bool            `json:"gso"`
	GRO           bool            `json:"gro"`
	Repair        inspect.Latency `json:"repair"`
	LostMessages  uint64          `json:"lost_messages"`

	seen *inspect.Bus
}

// Topic is a topic that is published.
type Topic struct {
	Of
	Topic       string  `json:"topic"`
	Group       string  `json:"group"`
	Rate        float64 `json:"messages_per_s"`
	Messages    uint64  `json:"messages"`
	Subscribers int     `json:"subscribers"`
	Slow        int     `json:"slow"` // subscribers of the group that hold it up, or are not waited for
}

// Subscription is one.
type Subscription struct {
	Of
	Number   uint64          `json:"number"`
	Topics   []string        `json:"topics"`
	Policy   string          `json:"policy"`
	Handler  bool            `json:"handler"`
	Rate     float64         `json:"messages_per_s"`
	Messages uint64          `json:"messages"`
	Pending  int             `json:"pending"` // packets
	Lost     uint64          `json:"lost_messages"`
	Gaps     uint64          `json:"gaps"`
	Causes   []inspect.Cause `json:"causes,omitempty"`
	Unread   float64         `json:"unread_s"` // that it has held a publisher up and read nothing
	Ended    string          `json:"ended,omitempty"`

	seen *inspect.Subscription
}

// Stream is a publisher in a group that is received.
type Stream struct {
	Of
	Publisher  string  `json:"publisher"` // its name, or its id
	ID         string  `json:"publisher_id"`
	Epoch      uint64  `json:"epoch"`
	Group      string  `json:"group"`
	Rate       float64 `json:"packets_per_s"`
	RepairRate float64 `json:"repaired_per_s"`
	Packets    uint64  `json:"packets"`
	Repaired   uint64  `json:"repaired"`
	Missing    int     `json:"missing"`
	Lost       uint64  `json:"lost_packets"`
	Lag        int     `json:"lag"` // of the subscription that is furthest behind
}

// Subscriber is a bus that a publisher here knows to receive a group.
type Subscriber struct {
	Of                // the publisher
	Subscriber string `json:"subscriber"` // its name
	ID         string `json:"subscriber_id"`
	Address    string `json:"address"`
	Tag        string `json:"tag,omitempty"`
	Group      string `json:"group"`
	Behind     uint64 `json:"behind"` // packets
	Room       uint64 `json:"room"`
	// State is ok, holds (it holds the publisher up), released (it is not waited for) or
	// silent (it has said nothing for 3 s).
	State   string  `json:"state"`
	HeldFor float64 `json:"held_s"`
	Heard   float64 `json:"heard_s"`
}

// Group is a group of a fabric, and who uses it on this host or is heard in it.
type Group struct {
	Group       string   `json:"group"`
	Publishers  []string `json:"publishers"`  // names
	Subscribers []string `json:"subscribers"` // names
	SentRate    float64  `json:"sent_packets_per_s"`
	Received    float64  `json:"received_packets_per_s"` // the most that one bus receives
	RepairRate  float64  `json:"repairs_sent_per_s"`
	NAKRate     float64  `json:"naks_per_s"`
	Unjoined    int      `json:"unjoined"` // buses that wait to join
}

// Loss is what one bus has dropped and lost for one cause.
type Loss struct {
	Of
	inspect.Cause
	Rate float64 `json:"dropped_per_s"`
}

// Leg is a leg of a bus.
type Leg struct {
	Of
	URL    string  `json:"url"`
	Up     bool    `json:"up"`
	Silent int     `json:"silent"`
	Skew   float64 `json:"skew_us"`
	Rate   float64 `json:"packets_per_s"`
	Lost   uint64  `json:"lost"`
	Filled uint64  `json:"filled"`
}

// Event is one of the events that a bus remembers.
type Event struct {
	Of
	Event inspect.Event `json:"event"`
}

// Failed is a process that did not answer.
type Failed struct {
	Socket string `json:"socket"`
	Error  string `json:"error"`
}

// slow reports whether the subscriber is to be looked at.
func (s *Subscriber) slow() bool { return s.State != stateOK }

// States of buses and subscribers.
const (
	stateOK       = "ok"
	stateBusy     = "busy"
	stateClosing  = "closing"
	stateFailed   = "failed"
	stateHolds    = "holds"
	stateReleased = "released"
	stateSilent   = "silent"
)

// silentAfter is how long a subscriber may say nothing: it says something once a second.
const silentAfter = 3.0 // seconds
