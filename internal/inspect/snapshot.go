package inspect

import (
	"strings"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// Version is that of a Snapshot and of the protocol of sockets. Within one version fields are added, and none is
// removed or changes its meaning: readers of a snapshot ignore fields that they do not know.
const Version = 1

// Bounds on a snapshot: what is beyond is left out, and its number is given.
const (
	MaxTopics        = 256 // that a bus publishes: those with the most messages
	MaxSubscriptions = 256 // of a bus
	MaxSubscribed    = 64  // topics and patterns of a subscription
	MaxFeeds         = 64  // publishers of a subscription, those that it is furthest behind
	MaxEvents        = 256 // of a bus, the newest
)

// Snapshot describes the buses of one process at one time. Counters begin when a bus is opened and never fall;
// rates come from two snapshots. Sizes are in bytes.
type Snapshot struct {
	Version int       `json:"version"`
	Time    time.Time `json:"time"`
	Process Process   `json:"process"`
	Host    Host      `json:"host"`
	Buses   []Bus     `json:"buses"` // in the order in which they were opened
}

// Process says which process it is.
type Process struct {
	PID     int       `json:"pid"`
	Program string    `json:"program"` // the file name of its executable
	Host    string    `json:"host"`
	User    int       `json:"uid"`     // -1 where a system has none
	Started time.Time `json:"started"` // as far as known: when its first bus was opened, or before
	Fanfare string    `json:"fanfare"` // version of the module that it is built with
	Go      string    `json:"go"`
}

// Host is what this host's kernel grants.
type Host struct {
	// ReceiveBufferMax is the largest receive buffer of a socket without privilege (net.core.rmem_max); 0: not known.
	ReceiveBufferMax int `json:"receive_buffer_max"`
}

// Bus is one bus of a process.
type Bus struct {
	Identity
	// Incomplete says why groups, legs and subscriptions are missing: the bus did not answer in time, or has ended.
	Incomplete string `json:"incomplete,omitempty"`
	Ended      string `json:"ended,omitempty"` // the error with which its transport has failed
	Closing    bool   `json:"closing,omitempty"`
	Fabric     Fabric `json:"fabric"`
	// NoSubscriber is for how many seconds the bus has published, or waited for subscribers, without detecting any;
	// NoPublisher the same of its subscriptions. 0: one was detected, or no event has reported it yet
	// (events.NoSubscriberHeard, NoPublisherHeard).
	NoSubscriber float64  `json:"no_subscriber_s,omitempty"`
	NoPublisher  float64  `json:"no_publisher_s,omitempty"`
	Counters     Counters `json:"counters"` // of stats.Bus and its Transport
	// Groups are those that are subscribed to, or were, and Publications those that are published to.
	Groups       []Group       `json:"groups,omitempty"`
	Publications []Publication `json:"publications,omitempty"`
	// Topics are those that are published, the most messages first; TopicsLeftOut is how many are not listed.
	Topics        []Topic `json:"topics,omitempty"`
	TopicsLeftOut int     `json:"topics_left_out,omitempty"`
	// Subscriptions are in the order in which they were made.
	Subscriptions        []Subscription `json:"subscriptions,omitempty"`
	SubscriptionsLeftOut int            `json:"subscriptions_left_out,omitempty"`
	// Causes are the causes of losses and drops, those that have happened.
	Causes []stats.CauseCount `json:"causes,omitempty"`
	Repair Latency            `json:"repair"` // from a packet found missing to its repair
	// Delivery is from the first sending of a packet to its delivery, of publishers with the same clock.
	Delivery Latency `json:"delivery"`
	Legs     []Leg   `json:"legs,omitempty"`
	// Events are the newest, the oldest of them first. EventCounts says how often each
	// kind has happened since Open, those that have.
	Events      []Event           `json:"events,omitempty"`
	EventCounts map[string]uint64 `json:"event_counts,omitempty"`
	// Losses is what was lost in the last hour.
	Losses *LossRecord `json:"losses,omitempty"`
}

// Identity says which bus it is.
type Identity struct {
	ID    string    `json:"id"`             // pubsub.PublisherID
	Epoch events.ID `json:"epoch"`          // of this instance
	Name  string    `json:"name,omitempty"` // Config.Name
	Tag   string    `json:"tag,omitempty"`  // Config.Tag
	// ShownAs is what publishers call it as a subscriber: its name, or host and process.
	ShownAs string    `json:"shown_as"`
	URLs    []string  `json:"urls"`  // without passwords, one a leg; empty: of a transport of the program's own
	Since   time.Time `json:"since"` // when it was opened
}

// Fabric is what a bus runs on.
type Fabric struct {
	Transport  string `json:"transport"` // udp, mem, ud, legs
	Groups     int    `json:"groups"`
	PacketSize int    `json:"packet_size"`
	GSO        bool   `json:"gso"`
	GRO        bool   `json:"gro"`
	// Open: the groups are not sealed, on a network: any host on it can read, forge and change all messages.
	Open bool `json:"open,omitempty"`
	// Buffers are those of the sockets of each leg that has some.
	Buffers []Buffers `json:"buffers,omitempty"`
	// Interfaces are the network interfaces of each leg that is on one.
	Interfaces []string `json:"interfaces,omitempty"`
}

// Buffers says what was asked of the system for the buffers of a socket, and what it granted.
type Buffers struct {
	ReceiveAsked   int `json:"receive_asked"`
	ReceiveGranted int `json:"receive_granted"`
	SendAsked      int `json:"send_asked"`
	SendGranted    int `json:"send_granted"`
}

// Counters are counters by name: those of a struct of package pubsub, the fields' names in
// snake case ("PacketsSent" is "packets_sent"). Those that are zero are left out.
type Counters map[string]uint64

// Group is a group that is subscribed to: stats.Group. Counters are those of
// stats.Receiver, and dropped_runs, unwanted_runs, unwanted_bytes.
type Group struct {
	Address     string   `json:"address"`
	Joined      bool     `json:"joined"`
	Topics      int      `json:"topics"`       // that are subscribed to
	WindowBytes int      `json:"window_bytes"` // memory of all receive windows
	Streams     []Stream `json:"streams,omitempty"`
	Counters    Counters `json:"counters"`
}

// Stream is one publisher in a group that is subscribed to: stats.Publisher.
type Stream struct {
	Publisher string    `json:"publisher"` // id
	Name      string    `json:"name,omitempty"`
	Epoch     events.ID `json:"epoch"`
	Packets   uint64    `json:"packets"`  // delivered to subscriptions, or given up
	Repaired  uint64    `json:"repaired"` // packets that had been missing and came as repairs
	Lost      uint64    `json:"lost"`     // packets given up
	Missing   int       `json:"missing"`  // packets that are missing just now
	Address   string    `json:"address,omitempty"`
	// LostFor is for how many seconds the publisher has been given up as lost; 0: it is heard.
	LostFor float64 `json:"lost_for_s,omitempty"`
}

// Publication is a group that is published to: stats.Publication. Counters are those of stats.Sender.
type Publication struct {
	Address     string       `json:"address"`
	Lead        uint64       `json:"lead"`              // sequence of the next packet
	Blocked     string       `json:"blocked,omitempty"` // what holds publishers up just now
	Stuck       float64      `json:"stuck,omitempty"`   // s for which nothing could be sent
	RTT         float64      `json:"rtt_us"`            // smoothed, 0: not measured
	SendCall    float64      `json:"send_call_us"`      // smoothed time of one send call
	MemoryBytes int          `json:"memory_bytes"`
	Subscribers []Subscriber `json:"subscribers,omitempty"`
	Counters    Counters     `json:"counters"`
}

// Subscriber is a bus that a publisher knows to receive a group: stats.Subscriber.
type Subscriber struct {
	ID      string  `json:"id"`
	Name    string  `json:"name,omitempty"` // its Config.Name, or its host and process
	Address string  `json:"address,omitempty"`
	Tag     string  `json:"tag,omitempty"`
	Behind  uint64  `json:"behind"`  // packets that it misses or has not read
	Room    uint64  `json:"room"`    // packets that it has room for
	Heard   float64 `json:"heard_s"` // seconds since it said anything
	// Unanswered is for how many seconds it has been asked for a sign of life, and has given none.
	Unanswered float64 `json:"unanswered_s,omitempty"`
	Holds      bool    `json:"holds"`    // it holds publishers up
	Released   bool    `json:"released"` // it is not waited for any more
	HeldFor    float64 `json:"held_s"`   // seconds that it has held them up, or had when it was released
}

// Topic is a topic that a bus publishes.
type Topic struct {
	Name        string `json:"name"`
	Group       string `json:"group"` // address
	Messages    uint64 `json:"messages"`
	Subscribers int    `json:"subscribers"` // buses that subscribe to it, as far as known
}

// Subscription is a subscription: stats.Subscription.
type Subscription struct {
	Number        uint64   `json:"number"` // 1 is the first that the bus has made
	Topics        []string `json:"topics"` // and patterns
	TopicsLeftOut int      `json:"topics_left_out,omitempty"`
	Handler       bool     `json:"handler"` // it has one; otherwise it is read
	// Policy is what happens when it reads too slowly: auto, block, gap, latest, evict or conflate.
	Policy       string             `json:"policy"`
	From         string             `json:"from"` // where it began: live, window, state or a number
	Messages     uint64             `json:"messages"`
	Pending      int                `json:"pending"` // packets in order that are not read yet
	Replaced     uint64             `json:"replaced,omitempty"`
	Waiting      int                `json:"waiting,omitempty"`
	WaitingBytes int                `json:"waiting_bytes,omitempty"`
	Lost         []stats.CauseCount `json:"lost,omitempty"` // gaps and messages only
	Publishers   []SubscriptionFeed `json:"publishers,omitempty"`
	Ended        string             `json:"ended,omitempty"` // why
}

// SubscriptionFeed is how far a subscription has read one publisher in one group.
type SubscriptionFeed struct {
	Publisher string    `json:"publisher"` // id
	Name      string    `json:"name,omitempty"`
	Epoch     events.ID `json:"epoch"`
	Group     string    `json:"group"`                // address
	Lag       int       `json:"lag"`                  // packets
	Window    int       `json:"window,omitempty"`     // packets that are kept for readers; 0: none are, or not known
	Relevant  bool      `json:"relevant"`             // the publisher has a topic that is subscribed on this bus
	Blocking  bool      `json:"blocking"`             // it may hold the publisher up
	Unread    float64   `json:"unread_s"`             // seconds for which it has held the stream up and read nothing; 0: it does not
	LostFor   float64   `json:"lost_for_s,omitempty"` // as of Stream
}

// Latency summarises a distribution of times, in microseconds.
type Latency struct {
	Count int64   `json:"count"`
	P50   float64 `json:"p50_us"` // percentiles since the bus was opened
	P90   float64 `json:"p90_us"`
	P99   float64 `json:"p99_us"`
	Max   float64 `json:"max_us"`
	// Buckets are those that are not empty: bucket i is of times up to 2^(i/32) seconds, as in a
	// native histogram of Prometheus with schema 5.
	Buckets []stats.Bucket `json:"buckets,omitempty"`
}

// Leg is a leg of a bus that was opened by several URLs: stats.Leg. Counters are its
// counters of packets, and those of its transport with the prefix transport_.
type Leg struct {
	URL      string   `json:"url"`
	Up       bool     `json:"up"`
	Silent   int      `json:"silent"`  // streams that are not heard by it while another leg brings them
	Skew     float64  `json:"skew_us"` // how far it is behind the leg that is first
	Counters Counters `json:"counters"`
}

// Event is something that happened on a bus: events.Event.
type Event struct {
	Sequence  uint64    `json:"sequence"` // 1 is the first of its bus
	Time      time.Time `json:"time"`
	Bus       string    `json:"bus,omitempty"` // id, when events are followed
	Kind      string    `json:"kind"`          // events.Kind.Label
	Text      string    `json:"text"`          // for people
	Group     string    `json:"group,omitempty"`
	Publisher string    `json:"publisher,omitempty"` // id
	Name      string    `json:"name,omitempty"`      // of the publisher or subscriber
	Address   string    `json:"address,omitempty"`
	Topics    []string  `json:"topics,omitempty"`
	Leg       string    `json:"leg,omitempty"`
	Cause     string    `json:"cause,omitempty"` // of dropped packets
	For       float64   `json:"for_s,omitempty"`
	Behind    uint64    `json:"behind,omitempty"`
	Error     string    `json:"error,omitempty"`
}

// Same is equal for repetitions of an event on a bus: of one kind, peer and cause, whatever its counts and times.
func (e *Event) Same() string {
	return strings.Join(append([]string{e.Kind, e.Cause, e.Group, e.Publisher, e.Name, e.Address, e.Leg, e.Error}, e.Topics...), "\x00")
}
