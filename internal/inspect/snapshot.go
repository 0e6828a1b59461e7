package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// Version is the version of Snapshot and of the protocol of sockets. Within one version fields are only added: none is
// removed or changes its meaning. Readers of a snapshot ignore unknown fields.
const Version = 1

// Bounds of lists in a snapshot. Further elements are omitted, and their number is stated.
const (
	MaxTopics        = 256 // published by a bus: those with the most messages
	MaxSubscriptions = 256 // of a bus
	MaxSubscribed    = 64  // topics and patterns of a subscription
	MaxFeeds         = 64  // publishers of a subscription: those that it is furthest behind
	MaxEvents        = 256 // of a bus: the newest
)

// Snapshot describes the buses of one process at one time. Counters start when a bus is opened and never decrease;
// rates are computed from two snapshots. Sizes are in bytes.
type Snapshot struct {
	Version int       `json:"version"`
	Time    time.Time `json:"time"`
	Process Process   `json:"process"`
	Host    Host      `json:"host"`
	Buses   []Bus     `json:"buses"` // in the order of opening
}

// Process is the identity of a process.
type Process struct {
	PID     int       `json:"pid"`
	Program string    `json:"program"` // the file name of its executable
	Host    string    `json:"host"`
	User    int       `json:"uid"`     // -1 if the system has none
	Started time.Time `json:"started"` // at the latest when its first bus was opened
	Fanfare string    `json:"fanfare"` // version of this module in the program
	Go      string    `json:"go"`
}

// Host has limits of the host's kernel.
type Host struct {
	// ReceiveBufferMax is the largest receive buffer of a socket without privileges (net.core.rmem_max); 0: unknown.
	ReceiveBufferMax int `json:"receive_buffer_max"`
}

// Bus is one bus of a process.
type Bus struct {
	Identity
	// Incomplete says why groups, legs and parts of subscriptions are missing: the bus's goroutine did not answer in time,
	// or has ended. Empty: nothing is missing.
	Incomplete string `json:"incomplete,omitempty"`
	Ended      string `json:"ended,omitempty"` // the error with which its transport failed
	Closing    bool   `json:"closing,omitempty"`
	Fabric     Fabric `json:"fabric"`
	// NoSubscriber is the time in seconds for which the bus has published, or waited for subscribers, without detecting
	// any; NoPublisher the same for its subscriptions. 0: one was detected, or no event has reported it yet
	// (events.NoSubscriberHeard, NoPublisherHeard).
	NoSubscriber float64  `json:"no_subscriber_s,omitempty"`
	NoPublisher  float64  `json:"no_publisher_s,omitempty"`
	Counters     Counters `json:"counters"` // those of stats.Bus and its Transport
	// Groups has current and earlier groups of subscriptions, Publications the groups to which the bus publishes.
	Groups       []Group       `json:"groups,omitempty"`
	Publications []Publication `json:"publications,omitempty"`
	// Topics has the published topics, those with the most messages first; TopicsLeftOut is the number of others.
	Topics        []Topic `json:"topics,omitempty"`
	TopicsLeftOut int     `json:"topics_left_out,omitempty"`
	// Subscriptions are in the order of their creation.
	Subscriptions        []Subscription `json:"subscriptions,omitempty"`
	SubscriptionsLeftOut int            `json:"subscriptions_left_out,omitempty"`
	// Causes has the causes of losses and drops that have occurred.
	Causes []stats.CauseCount `json:"causes,omitempty"`
	Repair Latency            `json:"repair"` // time from the detection of a missing packet to its repair
	// Delivery is the time from the first sending of a packet to its delivery, for publishers with the same clock.
	Delivery Latency `json:"delivery"`
	Legs     []Leg   `json:"legs,omitempty"`
	// Events has the newest events, oldest first. EventCounts has the number of events of each kind since Open, if not 0.
	Events      []Event           `json:"events,omitempty"`
	EventCounts map[string]uint64 `json:"event_counts,omitempty"`
	// Losses has the losses of the last hour.
	Losses *LossRecord `json:"losses,omitempty"`
}

// Identity is the identity of a bus.
type Identity struct {
	ID    string    `json:"id"`             // pubsub.PublisherID
	Epoch events.ID `json:"epoch"`          // of this instance
	Name  string    `json:"name,omitempty"` // Config.Name
	Tag   string    `json:"tag,omitempty"`  // Config.Tag
	// ShownAs is the name that publishers report for it as a subscriber: its name, or host and process.
	ShownAs string    `json:"shown_as"`
	URLs    []string  `json:"urls"`  // without passwords, one per leg; empty: the program opened the transport
	Since   time.Time `json:"since"` // when it was opened
}

// Fabric is the fabric of a bus.
type Fabric struct {
	Transport  string `json:"transport"` // udp, mem, ud, legs
	Groups     int    `json:"groups"`
	PacketSize int    `json:"packet_size"`
	GSO        bool   `json:"gso"`
	GRO        bool   `json:"gro"`
	// Open: the groups are on a network and not sealed, so any host can read, forge and change all messages.
	Open bool `json:"open,omitempty"`
	// Buffers has the socket buffers of each leg with sockets.
	Buffers []Buffers `json:"buffers,omitempty"`
	// Interfaces has the network interfaces of the legs.
	Interfaces []string `json:"interfaces,omitempty"`
}

// Buffers has the requested and granted sizes of a socket's buffers.
type Buffers struct {
	ReceiveAsked   int `json:"receive_asked"`
	ReceiveGranted int `json:"receive_granted"`
	SendAsked      int `json:"send_asked"`
	SendGranted    int `json:"send_granted"`
}

// Counters has counters by name: the fields of a struct of package pubsub in snake case ("PacketsSent" is
// "packets_sent"). Zero counters are omitted.
type Counters map[string]uint64

// Group is a group of subscriptions: stats.Group. Counters has those of stats.Receiver, and dropped_runs,
// unwanted_runs, unwanted_bytes.
type Group struct {
	Address     string   `json:"address"`
	Joined      bool     `json:"joined"`
	Topics      int      `json:"topics"`       // number of subscribed topics
	WindowBytes int      `json:"window_bytes"` // memory of all receive windows
	Streams     []Stream `json:"streams,omitempty"`
	Counters    Counters `json:"counters"`
}

// Stream is one publisher in a group of subscriptions: stats.Publisher.
type Stream struct {
	Publisher string    `json:"publisher"` // id
	Name      string    `json:"name,omitempty"`
	Epoch     events.ID `json:"epoch"`
	Packets   uint64    `json:"packets"`  // delivered to subscriptions, or lost
	Repaired  uint64    `json:"repaired"` // missing packets that arrived as repairs
	Lost      uint64    `json:"lost"`     // permanently lost packets
	Missing   int       `json:"missing"`  // currently missing packets
	Address   string    `json:"address,omitempty"`
	// LostFor is the time in seconds since the publisher was reported as lost; 0: it is not.
	LostFor float64 `json:"lost_for_s,omitempty"`
}

// Publication is a group to which the bus publishes: stats.Publication. Counters has those of stats.Sender.
type Publication struct {
	Address     string       `json:"address"`
	Lead        uint64       `json:"lead"`              // sequence of the next packet
	Blocked     string       `json:"blocked,omitempty"` // what currently blocks publishers
	Stuck       float64      `json:"stuck,omitempty"`   // seconds for which nothing could be sent
	RTT         float64      `json:"rtt_us"`            // smoothed; 0: not measured
	SendCall    float64      `json:"send_call_us"`      // smoothed time of one send call
	MemoryBytes int          `json:"memory_bytes"`
	Subscribers []Subscriber `json:"subscribers,omitempty"`
	Counters    Counters     `json:"counters"`
}

// Subscriber is a bus that receives a group, as known to the publisher: stats.Subscriber.
type Subscriber struct {
	ID      string  `json:"id"`
	Name    string  `json:"name,omitempty"` // its Config.Name, or its host and process
	Address string  `json:"address,omitempty"`
	Tag     string  `json:"tag,omitempty"`
	Behind  uint64  `json:"behind"`  // packets that it has not received or read
	Room    uint64  `json:"room"`    // packets for which it has room
	Heard   float64 `json:"heard_s"` // seconds since its last packet
	// Unanswered is the time in seconds for which it has not answered requests for a status.
	Unanswered float64 `json:"unanswered_s,omitempty"`
	Holds      bool    `json:"holds"`               // it blocks publishers
	Released   bool    `json:"released"`            // publishers no longer wait for it
	HeldFor    float64 `json:"held_s"`              // seconds for which it has blocked them, or had when it was released
	Unreached  bool    `json:"unreached,omitempty"` // it answers, but packets do not reach it
}

// Topic is a topic that a bus publishes.
type Topic struct {
	Name        string `json:"name"`
	Group       string `json:"group"` // address
	Messages    uint64 `json:"messages"`
	Subscribers int    `json:"subscribers"` // number of buses known to subscribe to it
}

// Subscription is a subscription: stats.Subscription.
type Subscription struct {
	Number        uint64   `json:"number"` // 1 is the first of the bus
	Topics        []string `json:"topics"` // and patterns
	TopicsLeftOut int      `json:"topics_left_out,omitempty"`
	Handler       bool     `json:"handler"` // it has a handler; otherwise the program reads it
	// Policy is the policy for slow reading: auto, block, gap, latest, evict or conflate.
	Policy       string             `json:"policy"`
	From         string             `json:"from"` // its start: live, window, state or a number
	Messages     uint64             `json:"messages"`
	Pending      int                `json:"pending"` // unread packets in order
	Replaced     uint64             `json:"replaced,omitempty"`
	Waiting      int                `json:"waiting,omitempty"`
	WaitingBytes int                `json:"waiting_bytes,omitempty"`
	Lost         []stats.CauseCount `json:"lost,omitempty"` // gaps and messages only
	Publishers   []SubscriptionFeed `json:"publishers,omitempty"`
	Ended        string             `json:"ended,omitempty"` // the reason of its end
}

// SubscriptionFeed is the progress of a subscription with one publisher in one group.
type SubscriptionFeed struct {
	Publisher string    `json:"publisher"` // id
	Name      string    `json:"name,omitempty"`
	Epoch     events.ID `json:"epoch"`
	Group     string    `json:"group"`                // address
	Lag       int       `json:"lag"`                  // packets
	Window    int       `json:"window,omitempty"`     // packets that are kept for readers; 0: none, or unknown
	Relevant  bool      `json:"relevant"`             // the publisher has a topic that this bus subscribes to
	Blocking  bool      `json:"blocking"`             // it may block the publisher
	Unread    float64   `json:"unread_s"`             // seconds for which it has blocked the stream and read nothing; 0: it does not block
	LostFor   float64   `json:"lost_for_s,omitempty"` // as in Stream
}

// Latency summarises a distribution of times, in microseconds.
type Latency struct {
	Count int64   `json:"count"`
	P50   float64 `json:"p50_us"` // percentiles since the bus was opened
	P90   float64 `json:"p90_us"`
	P99   float64 `json:"p99_us"`
	Max   float64 `json:"max_us"`
	// Buckets has the nonempty buckets: bucket i is for times up to 2^(i/32) seconds, as in a native histogram of
	// Prometheus with schema 5.
	Buckets []stats.Bucket `json:"buckets,omitempty"`
}

// Leg is a leg of a bus with several URLs: stats.Leg. Counters has its counters of packets, and those of its transport
// with the prefix transport_.
type Leg struct {
	URL      string   `json:"url"`
	Up       bool     `json:"up"`
	Silent   int      `json:"silent"`  // streams that arrive on another leg, but not on this one
	Skew     float64  `json:"skew_us"` // delay compared to the fastest leg
	Counters Counters `json:"counters"`
}

// Event is an event of a bus: events.Event.
type Event struct {
	Sequence  uint64    `json:"sequence"` // 1 is the first of its bus
	Time      time.Time `json:"time"`
	Bus       string    `json:"bus,omitempty"` // id of the bus, in answers to events
	Kind      string    `json:"kind"`          // events.Kind.Label
	Text      string    `json:"text"`          // for users
	Group     string    `json:"group,omitempty"`
	Publisher string    `json:"publisher,omitempty"` // id
	Epoch     events.ID `json:"epoch,omitempty"`
	// Subscriber is an id, Name that of the subscriber or publisher.
	Subscriber string   `json:"subscriber,omitempty"`
	Name       string   `json:"name,omitempty"`
	Address    string   `json:"address,omitempty"`
	Topics     []string `json:"topics,omitempty"`
	Leg        string   `json:"leg,omitempty"`
	Cause      string   `json:"cause,omitempty"` // of dropped packets
	For        float64  `json:"for_s,omitempty"`
	Behind     uint64   `json:"behind,omitempty"`
	Error      string   `json:"error,omitempty"`
}

// Same is equal for repetitions of an event on a bus: of one kind, peer and cause, in any group.
func (e *Event) Same() string {
	peer := cmp.Or(e.Publisher, e.Subscriber, e.Name+"\x00"+e.Address)
	return strings.Join(append([]string{e.Kind, e.Cause, peer, e.Leg, e.Error}, e.Topics...), "\x00")
}

// InGroups is the text of an event that happened in n groups.
func (e *Event) InGroups(n int) string {
	if n < 2 || e.Group == "" {
		return e.Text
	}
	before, after, _ := strings.Cut(e.Text, e.Group)
	return fmt.Sprintf("%s%d groups%s", strings.TrimSuffix(before, "group "), n, after)
}

// NamedEvents returns the events with the names of publishers, as far as they are known by now, instead of their ids in
// the texts.
func (b *Bus) NamedEvents() []Event {
	names, all := make(map[string]string), slices.Clone(b.Events)
	for i := range b.Groups {
		for _, s := range b.Groups[i].Streams {
			names[s.Publisher] = s.Name
		}
	}
	for i := range all {
		if e := &all[i]; len(e.Publisher) == 16 && e.Subscriber == "" {
			if e.Name = cmp.Or(e.Name, names[e.Publisher]); e.Name != "" {
				e.Text = strings.Replace(e.Text, e.Name+" "+e.Publisher, e.Publisher, 1)
				e.Text = strings.Replace(e.Text, e.Publisher, e.Name, 1)
			}
		}
	}
	return all
}
