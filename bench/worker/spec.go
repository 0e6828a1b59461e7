package worker

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Role is what a worker does in a measurement.
type Role string

// Roles.
const (
	RolePublish   Role = "publish"
	RoleSubscribe Role = "subscribe"
	// RoleBoth is publisher and subscribers in one process, for transports that do not leave it.
	RoleBoth Role = "both"
	// RoleBroker is what a contender needs besides: a server.
	RoleBroker Role = "broker"
)

// Load says when messages are published.
type Load string

// Loads.
const (
	LoadFull  Load = "full"  // one after the other, for Seconds
	LoadPaced Load = "paced" // Rate messages a second whatever happens: open loop
	// LoadRequest: Requests, each when the one before is answered. Subscribers are responders.
	LoadRequest Load = "request"
	LoadIdle    Load = "idle" // none, for Seconds
)

// Wait is how a side waits for messages, or for the time of the next one.
type Wait string

// Ways to wait.
const (
	WaitAdaptive Wait = "adaptive" // as the contender does by itself
	WaitPark     Wait = "park"     // asleep in the kernel
	WaitSpin     Wait = "spin"     // asking again and again, which takes a core
)

// Receive is how Fanfare's subscriber takes messages.
type Receive string

// Ways to receive.
const (
	ReceiveHandle   Receive = "handle"   // Bus.Handle
	ReceiveMessages Receive = "messages" // Subscription.Messages, in a goroutine
	ReceiveBatch    Receive = "batch"    // Subscription.NextBatch, in a goroutine
)

// Spec is all that a worker gets to know.
type Spec struct {
	Role      Role     `json:"role"`
	Contender string   `json:"contender"`
	URL       string   `json:"url"`            // Fanfare's fabric
	Legs      []string `json:"legs,omitempty"` // and its further legs
	Topic     string   `json:"topic"`          // Fanfare's
	Address   string   `json:"address"`        // multicast address and port of the baselines
	Broker    string   `json:"broker"`         // address of the contender's server
	Sockets
	Load Load `json:"load"`
	Traffic
	Index int `json:"index"`           // of the subscriber
	Batch int `json:"batch,omitempty"` // messages that the publisher publishes in a call, a power of two; 0: one, by Publish
	// Shape is for Fanfare, and its Topics and Order for contenders that are Topical. Zero means one of each, or none.
	Shape
	Wildcard bool    `json:"wildcard,omitempty"`  // a subscriber takes its topics by the pattern ">"
	Sealed   bool    `json:"sealed,omitempty"`    // every packet, with a key that all know
	Signed   bool    `json:"signed,omitempty"`    // every train, with a key that subscribers trust
	Loss     float64 `json:"loss,omitempty"`      // share of packets that each subscriber loses
	Seed     uint64  `json:"seed"`                // of Loss and Order
	Metrics  string  `json:"metrics"`             // address to serve metrics at, empty: none
	LookedAt bool    `json:"looked_at,omitempty"` // it has a socket for others to look at its buses; else none
	// Profile is what files with CPU profiles (runtime/pprof) begin with, empty:
	// there are none. Role and process id are appended.
	Profile string `json:"profile"`
}

// Sockets are what all contenders' sockets have.
type Sockets struct {
	Interface string `json:"interface"` // name or address
	MTU       int    `json:"mtu"`       // bytes in a datagram, at most
	RecvBuf   int    `json:"rcvbuf"`    // bytes asked for
	SendBuf   int    `json:"sndbuf"`    // bytes asked for
}

// Traffic is the messages, and how both sides go about them.
type Traffic struct {
	Size          int     `json:"size"` // bytes in a message
	Subs          int     `json:"subs"` // subscribers, all together
	Seconds       float64 `json:"seconds"`
	Receive       Receive `json:"receive"`
	Wait          Wait    `json:"wait"`           // of subscribers
	PublisherWait Wait    `json:"publisher_wait"` // of the publisher, for its next message
	Rate          float64 `json:"rate"`           // messages a second, LoadPaced
	Requests      int     `json:"requests"`       // LoadRequest
	AllReplies    bool    `json:"all_replies"`    // a request waits for all responders
	CheckAll      bool    `json:"check_all"`      // every byte of every message is checked
}

// Shape is the number of publishers, topics and subscribers, and which subscriber takes which topics.
type Shape struct {
	Topics     int   `json:"topics"`
	Order      Order `json:"order"`               // of the messages through the topics
	Goroutines int   `json:"goroutines"`          // that publish on each bus, sharing its publishers
	Buses      int   `json:"pubs"`                // that publish, in one process
	Split      bool  `json:"split"`               // each subscriber takes its share of the topics
	Extra      int   `json:"extra_subscriptions"` // to other topics on each subscriber's bus
}

// Here is how many subscribers a worker has.
func (s *Spec) Here() int {
	if s.Role == RoleBoth {
		return s.Subs
	}
	return 1
}

// Faults are those of what a side receives, as pubsub.Config.Faults has them.
func (s *Spec) Faults() string {
	if s.Loss == 0 {
		return ""
	}
	seed := s.Seed
	if s.Load == LoadRequest { // each side loses packets of its own
		if seed += uint64(s.Index); s.Role == RolePublish {
			seed += uint64(s.Subs)
		}
	}
	return fmt.Sprintf("loss=%g,seed=%d", s.Loss, seed)
}

// duration is how long a load lasts.
func (s *Spec) duration() time.Duration { return time.Duration(s.Seconds * float64(time.Second)) }

func (s *Spec) topics() int { return max(s.Topics, 1) }

// Sources is how many goroutines publish, on all buses together.
func (s *Spec) Sources() int { return max(s.Goroutines, 1) * max(s.Buses, 1) }

// Many reports whether messages are of several series, one of each goroutine on each topic.
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

// taken are the names of the topics that a subscriber takes, and empty in the places of others.
func (s *Spec) taken(subscriber int) []string {
	names := s.TopicNames()
	for t := range names {
		if !s.Takes(subscriber, t) {
			names[t] = ""
		}
	}
	return names
}

// Takes reports whether a subscriber takes a topic.
func (s *Spec) Takes(subscriber, topic int) bool { return !s.Split || topic%s.Subs == subscriber }

// Report is what a worker has measured.
type Report struct {
	Messages uint64 `json:"messages"` // published, or received
	Timed    uint64 `json:"timed"`    // of Messages: that had been received at End
	Lost     uint64 `json:"lost"`     // messages known not to have come
	Gaps     uint64 `json:"gaps"`     // runs of missing numbers
	Bad      uint64 `json:"bad"`      // messages out of order, twice, or with wrong content
	Fault    string `json:"fault"`    // the first of Bad
	// Start and End are instants of the host's monotonic clock, in nanoseconds: of a publisher's first and last call, or a
	// subscriber's first and last message. Where the last one is lost End is up to 1024 messages earlier.
	Start   int64                  `json:"start"`
	End     int64                  `json:"end"`
	Usage   Usage                  `json:"usage"`             // between Start and End, or a little more
	Latency *hdrhistogram.Snapshot `json:"latency,omitempty"` // in nanoseconds
	Figures map[string]float64     `json:"figures,omitempty"` // the contender's own
	// Topics are Messages by topic, and TopicsLost those reported to a subscriber as
	// lost; nil where there is one series of messages, or nothing was lost.
	Topics     []uint64 `json:"topics,omitempty"`
	TopicsLost []uint64 `json:"topics_lost,omitempty"`
}

// fault counts something that must not be.
func (r *Report) fault(what string) {
	if r.Bad++; r.Fault == "" {
		r.Fault = what
	}
}
