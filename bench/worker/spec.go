package worker

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Role is the role of a worker in a measurement.
type Role string

// Roles.
const (
	RolePublish   Role = "publish"
	RoleSubscribe Role = "subscribe"
	// RoleBoth is publisher and subscribers in one process, for in-process transports.
	RoleBoth Role = "both"
	// RoleBroker is the server that a contender needs.
	RoleBroker Role = "broker"
)

// Load is the kind of load.
type Load string

// Loads.
const (
	LoadFull  Load = "full"  // back to back, for Seconds
	LoadPaced Load = "paced" // Rate messages a second, regardless of delays: open loop
	// LoadRequest: Requests, each after the reply to the previous one. Subscribers are responders.
	LoadRequest Load = "request"
	LoadIdle    Load = "idle" // none, for Seconds
)

// Wait is how a side waits for messages, or for the time of the next one.
type Wait string

// Ways to wait.
const (
	WaitAdaptive Wait = "adaptive" // the contender's default
	WaitPark     Wait = "park"     // asleep in the kernel
	WaitSpin     Wait = "spin"     // polling, which occupies a core
)

// Receive is how Fanfare's subscriber receives messages.
type Receive string

// Ways to receive.
const (
	ReceiveHandle   Receive = "handle"   // Bus.Handle
	ReceiveMessages Receive = "messages" // Subscription.Messages, in a goroutine
	ReceiveBatch    Receive = "batch"    // Subscription.NextBatch, in a goroutine
)

// Spec is the complete specification of a worker.
type Spec struct {
	Role      Role     `json:"role"`
	Contender string   `json:"contender"`
	URL       string   `json:"url"`            // Fanfare's fabric
	Legs      []string `json:"legs,omitempty"` // and its further legs
	Topic     string   `json:"topic"`          // of Fanfare
	Address   string   `json:"address"`        // multicast address and port of the baselines
	Broker    string   `json:"broker"`         // address of the contender's server
	Sockets
	Load Load `json:"load"`
	Traffic
	Index int `json:"index"`           // of the subscriber
	Batch int `json:"batch,omitempty"` // messages that the publisher passes in one call, a power of two; 0: one, with Publish
	// Shape is for Fanfare; Topics and Order are also for contenders that are Topical. Zero means one of each, or none.
	Shape
	Wildcard  bool    `json:"wildcard,omitempty"`  // a subscriber uses the pattern ">"
	Sealed    bool    `json:"sealed,omitempty"`    // every packet, with a known key
	Signed    bool    `json:"signed,omitempty"`    // every train, with a key that subscribers trust
	Loss      float64 `json:"loss,omitempty"`      // share of packets dropped at each subscriber
	Seed      uint64  `json:"seed"`                // of Loss and Order
	Metrics   string  `json:"metrics"`             // address to serve metrics at, empty: none
	Inspected bool    `json:"inspected,omitempty"` // it has an inspection socket
	// Profile is the prefix of files for CPU profiles (runtime/pprof), empty: none. Role and process id are appended.
	Profile string `json:"profile"`
}

// Sockets are settings of all contenders' sockets.
type Sockets struct {
	Interface string `json:"interface"` // name or address
	MTU       int    `json:"mtu"`       // bytes in a datagram, at most
	RecvBuf   int    `json:"rcvbuf"`    // bytes requested
	SendBuf   int    `json:"sndbuf"`    // bytes requested
}

// Traffic describes the messages, and how both sides handle them.
type Traffic struct {
	Size          int     `json:"size"` // bytes in a message
	Subs          int     `json:"subs"` // total number of subscribers
	Seconds       float64 `json:"seconds"`
	Receive       Receive `json:"receive"`
	Wait          Wait    `json:"wait"`           // of subscribers
	PublisherWait Wait    `json:"publisher_wait"` // of the publisher, for the next message
	Rate          float64 `json:"rate"`           // messages a second, LoadPaced
	Requests      int     `json:"requests"`       // LoadRequest
	AllReplies    bool    `json:"all_replies"`    // a request waits for all responders
	CheckAll      bool    `json:"check_all"`      // every byte of every message is checked
}

// Shape is the number of publishers, topics and subscribers, and which subscriber subscribes to which topics.
type Shape struct {
	Topics     int   `json:"topics"`
	Order      Order `json:"order"`               // of topics
	Goroutines int   `json:"goroutines"`          // publishing on each bus, sharing its publishers
	Buses      int   `json:"pubs"`                // publishing buses, in one process
	Split      bool  `json:"split"`               // each subscriber subscribes to its share of the topics
	Extra      int   `json:"extra_subscriptions"` // further subscriptions to other topics on each subscriber's bus
}

// Here is the number of subscribers in a worker.
func (s *Spec) Here() int {
	if s.Role == RoleBoth {
		return s.Subs
	}
	return 1
}

// Faults returns the simulated faults of a side's received packets, in the form of pubsub.Config.Faults.
func (s *Spec) Faults() string {
	if s.Loss == 0 {
		return ""
	}
	seed := s.Seed
	if s.Load == LoadRequest { // each side loses different packets
		if seed += uint64(s.Index); s.Role == RolePublish {
			seed += uint64(s.Subs)
		}
	}
	return fmt.Sprintf("loss=%g,seed=%d", s.Loss, seed)
}

// duration is the duration of a load.
func (s *Spec) duration() time.Duration { return time.Duration(s.Seconds * float64(time.Second)) }

func (s *Spec) topics() int { return max(s.Topics, 1) }

// Sources is the number of publishing goroutines, on all buses together.
func (s *Spec) Sources() int { return max(s.Goroutines, 1) * max(s.Buses, 1) }

// Many reports whether messages belong to several series, one for each goroutine on each topic.
func (s *Spec) Many() bool { return s.topics() > 1 || s.Sources() > 1 }

// TopicNames are the names of all topics.
func (s *Spec) TopicNames() []string {
	if s.topics() == 1 {
		return []string{s.Topic}
	}
	names := make([]string, s.Topics)
	for i := range names {
		names[i] = fmt.Sprintf("%s.%d", s.Topic, i)
	}
	return names
}

// subscribedNames are the names of the topics of a subscriber, with empty strings in place of others.
func (s *Spec) subscribedNames(subscriber int) []string {
	names := s.TopicNames()
	for t := range names {
		if !s.Subscribes(subscriber, t) {
			names[t] = ""
		}
	}
	return names
}

// Subscribes reports whether a subscriber subscribes to a topic.
func (s *Spec) Subscribes(subscriber, topic int) bool { return !s.Split || topic%s.Subs == subscriber }

// Report is the result of a worker.
type Report struct {
	Messages uint64 `json:"messages"` // published, or received
	Timed    uint64 `json:"timed"`    // of Messages: received until End
	Lost     uint64 `json:"lost"`     // messages reported missing
	Gaps     uint64 `json:"gaps"`     // runs of missing numbers
	Bad      uint64 `json:"bad"`      // messages out of order, twice, or with wrong content
	Fault    string `json:"fault"`    // the first of Bad
	// Start and End are times of the host's monotonic clock, in nanoseconds: of a publisher's first and last call, or
	// a subscriber's first and last message. If the last one is lost End is up to 1024 messages earlier.
	Start   int64                  `json:"start"`
	End     int64                  `json:"end"`
	Usage   Usage                  `json:"usage"`             // between Start and End, or slightly longer
	Latency *hdrhistogram.Snapshot `json:"latency,omitempty"` // in nanoseconds
	Figures map[string]float64     `json:"figures,omitempty"` // the contender's own counters
	// Topics are Messages by topic, and TopicsLost those reported lost to a subscriber; nil if there
	// is one series, or nothing was lost.
	Topics     []uint64 `json:"topics,omitempty"`
	TopicsLost []uint64 `json:"topics_lost,omitempty"`
}

// fault counts an error.
func (r *Report) fault(what string) {
	if r.Bad++; r.Fault == "" {
		r.Fault = what
	}
}
