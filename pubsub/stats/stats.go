// Package stats is what a bus counts and measures. pubsub.Bus.Stats returns a Bus, which holds all of it but
// what one subscription has read: pubsub.Subscription.Stats returns that as a Subscription.
//
//	Bus ─┬─ Transport                          the fabric
//	     ├─ Group ─┬─ Receiver                 a group that is subscribed to: packets and messages received
//	     │         └─ Publisher                one publisher of it
//	     ├─ Publication ─┬─ Sender             a group that is published to: packets and messages sent
//	     │               └─ Subscriber         one subscriber of it
//	     ├─ Leg ── Transport                   one of several legs
//	     ├─ Loss                               what was lost permanently, by cause
//	     ├─ Seal, Sign                         what was refused because of keys
//	     └─ Distributions ── Distribution      how long stages took
//
// Every layer of Fanfare counts in these structs. Fields of type uint64 that have no other unit in their comment
// are counters of what they are named for: they begin at zero when the bus is opened and never fall.
package stats

import (
	"reflect"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Bus is a snapshot of everything a bus counts.
type Bus struct {
	Time      time.Time // of the snapshot
	Transport Transport // of all legs together
	// Groups are those that are subscribed to, or were; Publications those that are published to.
	Groups       []Group
	Publications []Publication

	ForeignReplies      uint64 // unicast packets that belong to no stream of this bus
	RepliesFailed       uint64 // NAKs and statuses that could not be sent, in packets
	SlowConsumerPackets uint64 // packets that subscriptions skipped because they read too slowly
	ReplacedMessages    uint64 // messages that newer ones of their keys replaced before they were read (Conflate)

	// Lost is what was lost permanently: every GapError that a subscription delivered, each cause once. Two
	// subscriptions of a topic both count their gaps.
	Lost []Loss
	// Repair is the time from a packet being found missing to its repair, and Delivery the time that deliveries
	// took, from publishers with the clock of this bus: Distributions in short.
	Repair, Delivery Latency
	Distributions    Distributions

	// LostOnWay counts packets that were found missing and that this host did not drop, whether they were repaired
	// or not. Where the kernel merges packets into trains, a loss on the way at the time of an overflow may
	// count as that overflow.
	LostOnWay uint64
	// LostToQueue counts packets for which most likely no receive was posted, where the RDMA adapter does not count
	// them: they were missing after the receive queue was used up.
	LostToQueue uint64

	Events []events.Count // how often each kind of event happened, each once, also without Config.OnEvent
	Seal   Seal           // packets refused because they do not open; zero without keys (Config.Keys)
	Sign   Sign           // packets refused because their signature proves nothing; zero without Config.Trust
	// RefusedMessages counts messages on topics for which their publishers are not trusted, once for each
	// subscription that wants them.
	RefusedMessages uint64

	Legs []Leg // of a bus that was opened by several URLs, in their order
}

// Loss is what subscriptions lost for one cause.
type Loss struct {
	Cause    events.Cause
	Gaps     uint64 // GapErrors delivered, to readers and handlers
	Messages uint64 // messages lost in them; a gap of unknown size adds nothing
}

// Leg is one leg of a bus that was opened by several URLs. Packets here are data packets sent for the first time,
// of all publishers that are received.
type Leg struct {
	URL        string        // that the leg was opened by, without a password
	Up         bool          // all joined groups are joined on it, and it takes what is sent
	Silent     int           // streams, each one publisher in one group, that only other legs bring now
	Falls      uint64        // times that a stream fell silent on it while another leg brought it
	Packets    uint64        // that it brought
	Copies     uint64        // of Packets: that had arrived before, by another leg or as repairs
	Lost       uint64        // packets that it did not bring although it brought newer ones
	Filled     uint64        // of Lost: that another leg brought; the others were repaired or are lost permanently
	Late       uint64        // of Packets: that it brought after newer ones
	Duplicates uint64        // packets that it brought once more
	Repairs    uint64        // packets that it brought as repairs
	Skew       time.Duration // how far it is behind the first leg, smoothed; the largest of all streams
	Unsent     uint64        // packets that other legs sent while this one took none
	Transport  Transport     // of the leg alone
}

// Add adds the counters of x to those of sum: all fields are uint64, or structs of uint64.
func Add[T any](sum, x *T) { add(reflect.ValueOf(sum).Elem(), reflect.ValueOf(x).Elem()) }

func add(sum, x reflect.Value) {
	for i := range sum.NumField() {
		if f := sum.Field(i); f.Kind() == reflect.Struct {
			add(f, x.Field(i))
		} else {
			f.SetUint(f.Uint() + x.Field(i).Uint())
		}
	}
}
