// Package events is what a bus tells of its peers, its groups and itself: pubsub.Config.OnEvent is called
// with it, and pubsub.PublisherEvents has some of it in a subscription's stream.
package events

import (
	"fmt"
	"strings"
	"time"

	"github.com/fanfaremq/fanfare/internal/plural"
)

// PublisherID names a publisher: a bus, as its subscribers see it.
type PublisherID uint64

func (id PublisherID) String() string { return fmt.Sprintf("%016x", uint64(id)) }

// Kind says what happened.
type Kind uint8

// Kinds of events.
const (
	// PublisherUp: a publisher was heard for the first time, or again after
	// it fell silent.
	PublisherUp Kind = iota
	// PublisherEnded: a publisher closed, and everything was delivered.
	PublisherEnded
	// PublisherLost: a publisher fell silent. It may come up again.
	PublisherLost
	// PublisherRestarted: a publisher fell silent after another instance of the same
	// name came up, which was heard since: most likely it was restarted. As after
	// PublisherLost it may come up again.
	PublisherRestarted
	// SubscriberSilent: a subscriber said nothing through all solicitations
	// and is not waited for any more.
	SubscriberSilent
	// GroupFailed: a group could not be joined.
	GroupFailed
	// GroupLost: the membership of a group was lost, because the interface or the
	// fabric lost it; the bus joins it again. Err says why.
	GroupLost
	// GroupBack: a group that was lost is joined again.
	GroupBack
	// TopicCollision: a publisher uses the id of a subscribed topic for another
	// name. Err is a *TopicCollisionError.
	TopicCollision
	// PublisherRefused: a publisher is not heard. Err is a *PublisherRefusedError.
	PublisherRefused
	// DuplicateName: two buses of one Config.Name have published side by side for more
	// than 5 s, which restarts and most rolling updates do not. Messages of both are
	// delivered; Message.Epoch tells them apart. Epoch and Address are those of the
	// bus that came up later, OtherEpoch and OtherAddress of the other.
	DuplicateName
	// PublisherStalled: a subscriber, which is there and does not read, has held this
	// bus's publishers of a group up for For, and is Behind packets behind. It is told
	// after a second, and again at twice as long each time.
	PublisherStalled
	// PublisherResumed: nobody holds this bus's publishers of the group up any more,
	// after For. The subscriber is the one that did last.
	PublisherResumed
	// SubscriberReleased: a subscriber has held this bus's publishers up for longer than
	// Config.StallLimit, and is not waited for until it has caught up.
	SubscriberReleased
	// HoldsPublishersUp: this bus has held a publisher up for For, as that says: the
	// subscription of Topics is not read, or, where Behind is 0, handlers of Topics
	// take long. Without Topics all that arrived is read, and packets do not arrive. It is told as PublisherStalled is.
	HoldsPublishersUp
	// SubscriptionNotRead: a subscription of this bus, to Topics, has not been read for
	// For, and has no room for more: publishers that wait for it are held up, and so
	// are the neighbours on this bus. It is told as PublisherStalled is.
	SubscriptionNotRead
	// HandlerSlow: a handler of Topics, or OnEvent if there are none, has run for For and
	// has not returned, or a run of its messages has taken so long: it holds up all else
	// on this bus. Or it is a handler with a goroutine of its own, or the key of Conflate, and
	// holds up its subscription: of such For is what it has run at least. It is told after a second, and again at twice as long each time, while
	// the handler runs: so OnEvent is called from another goroutine than for all other
	// events, though never twice at a time.
	HandlerSlow
	// HandlerReturned: a handler that HandlerSlow was told of has returned, after For.
	HandlerReturned
	// ReleasedByPublisher: a publisher does not wait for this bus any more, which has held it up for
	// For. What it has no more when Topics are read on is a gap, of CauseReleased.
	ReleasedByPublisher
	// ConfigMismatch: another bus on the same addresses is configured differently, so
	// that it may not hear this one, nor be heard. Err is a *ConfigMismatchError. What is harmless is
	// ConfigDiffers.
	// Relevant says that it may publish a topic that is subscribed here, or may
	// subscribe to one that is published here. It is told once for each start of the
	// other bus.
	ConfigMismatch
	// SlowSubscriber: a subscriber has been behind by more than Config.SlowBehind for For,
	// or as far as it can be, and is not waited for until it is at most half as far behind.
	SlowSubscriber
	// PublisherFault: a publisher does not keep the rules of the protocol. Err is a
	// *FaultError.
	PublisherFault
	// LegDown: a leg of a bus that was opened by several URLs does not carry what it
	// should, while another does: nothing is lost so far, and the next failure will not be
	// covered. Leg says which. Err says why where the fabric has told; otherwise Publisher
	// has not been heard by it for For.
	LegDown
	// LegBack: the leg does again, after For.
	LegBack
	// SubscriptionEvicted: a subscription of this bus with SlowEvict, to Topics, was ended:
	// it was Behind packets behind the publisher, and has been behind for For. Err is the
	// *EvictedError with which it ends.
	SubscriptionEvicted
	// SubscriberUp: a subscriber of this bus's publishers of a group has come, and flow control
	// waits for it from now on.
	SubscriberUp
	// SubscriberLeft: it has taken its leave, Behind packets behind.
	SubscriberLeft
	// BadPackets: packets were dropped because their checksum is missing or wrong, Behind of
	// them since the group was joined; the last one came from Address and says that it is
	// Publisher's. It is told of the 1st, 2nd, 4th, 8th ….
	BadPackets
	// DictionaryMissing: a publisher compresses its packets with a dictionary that this bus
	// does not have (Config.Dictionaries). They are lost, with gaps of CauseUnreadable. Err is a
	// *DictionaryError. Told once for each start of the publisher, group and dictionary.
	DictionaryMissing
	// PacketsUnreadable: packets come that this bus cannot open, and refuses: they are sealed
	// with a key that it lacks, or not sealed at all, or do not verify. Err, an
	// *UnreadableError, says why, where the first came from and what to do. Each reason is
	// told once for each key, until the keys change; of keys that are lacking or not trusted,
	// which can be made up, 64 are, and then once that there are more.
	PacketsUnreadable
	// PacketsDropped: packets were dropped by this host, or lost on the way here, for Cause:
	// Behind of them so far, repaired afterwards or not. It is told of the 1st, 2nd, 4th, 8th
	// …, some ten seconds late at most.
	PacketsDropped
	// StoodStill: this process did not run for For beyond when it wanted to, 2 s at least: it
	// was stopped, or its host gave it no processor time. What came meanwhile may be lost, and
	// publishers may have released this bus.
	StoodStill
	// NoSubscriberHeard: this bus publishes on Topics, or waits for subscribers, for For, and
	// no subscriber of any of its topics was ever heard on Interface. It is a hint, told once: there may
	// be none, or it may be on another interface. Buses within one process (mem://, sim://) do not tell it.
	NoSubscriberHeard
	// NoPublisherHeard: as NoSubscriberHeard, of the subscriptions of this bus.
	NoPublisherHeard
	// Unfindable: who comes from now on does not find this bus, while those that it has met go
	// on: over shm:// its files were removed, or are others. Err says which, and what to do. It is
	// told once a bus. Where it is one of several URLs that is a LegDown, without a LegBack.
	Unfindable
	// Unmet: other buses are there whom this one cannot meet, so that neither hears the other: over shm:// for want of
	// descriptors, or because they are of another version. Err says how many, why, and what to do. It is told again
	// only when all were met in between.
	Unmet
	// CannotSend: the network, or what is below, has taken nothing of what this bus sends in a
	// group for For; Behind packets wait, and publishers do once there is no more room, whatever
	// their flow control. Err says why: an interface that is down, no valid key. It is told after a
	// second, and again at twice as long each time.
	CannotSend
	// SendsAgain: what CannotSend was told of is over, after For.
	SendsAgain
	// ConfigDiffers: another bus on the same addresses is configured differently, and each understands the
	// other all the same: such as packets of another size, or other legs. Nobody loses anything by it. Err and
	// Relevant are as of ConfigMismatch. It is told once for each start of the other bus.
	ConfigDiffers
	// CannotReply: no NAK, status or answer could be sent to the publisher at Address for For, and Behind
	// packets were not. What is lost on the way from there is not repaired, and that publisher does not wait
	// for this bus. Err says why, and what to do. It is told after a second, and again at twice as long each time.
	CannotReply
	// RepliesAgain: what CannotReply was told of is over, after For.
	RepliesAgain

	// Kinds is how many there are.
	Kinds
)

// Count is how often events of a kind have happened.
type Count struct {
	Kind  Kind
	Count uint64
}

var texts = [...]string{
	PublisherUp:         "publisher up",
	PublisherEnded:      "publisher ended",
	PublisherLost:       "publisher lost",
	PublisherRestarted:  "publisher restarted",
	SubscriberSilent:    "subscriber silent",
	GroupFailed:         "group failed",
	GroupLost:           "group lost",
	GroupBack:           "group back",
	TopicCollision:      "topic collision",
	PublisherRefused:    "publisher refused",
	DuplicateName:       "duplicate name",
	PublisherStalled:    "publisher stalled",
	PublisherResumed:    "publisher resumed",
	SubscriberReleased:  "subscriber released",
	HoldsPublishersUp:   "holds publishers up",
	SubscriptionNotRead: "subscription not read",
	HandlerSlow:         "handler slow",
	HandlerReturned:     "handler returned",
	ReleasedByPublisher: "released by a publisher",
	ConfigMismatch:      "config mismatch",
	SlowSubscriber:      "slow subscriber",
	PublisherFault:      "publisher fault",
	LegDown:             "leg down",
	LegBack:             "leg back",
	SubscriptionEvicted: "subscription evicted",
	SubscriberUp:        "subscriber up",
	SubscriberLeft:      "subscriber left",
	BadPackets:          "bad packets",
	DictionaryMissing:   "dictionary missing",
	PacketsUnreadable:   "packets unreadable",
	PacketsDropped:      "packets dropped",
	StoodStill:          "stood still",
	NoSubscriberHeard:   "no subscriber heard",
	NoPublisherHeard:    "no publisher heard",
	Unfindable:          "unfindable",
	Unmet:               "unmet",
	CannotSend:          "cannot send",
	SendsAgain:          "sends again",
	ConfigDiffers:       "config differs",
	CannotReply:         "cannot reply",
	RepliesAgain:        "replies again",
}

func (k Kind) String() string {
	if int(k) < len(texts) {
		return texts[k]
	}
	return fmt.Sprintf("event(%d)", uint8(k))
}

// Label is the kind as one word that never changes, as metrics have it: publisher_up.
func (k Kind) Label() string { return strings.ReplaceAll(k.String(), " ", "_") }

// Event is something that happened on the bus.
type Event struct {
	Kind      Kind
	Group     string      // address of the group
	Publisher PublisherID // for publisher events
	// Name is the Config.Name of the publisher; empty if it has none, or was not heard
	// yet. Of a subscriber it is that, or its host and process.
	Name       string
	Epoch      uint64 // for publisher events
	Subscriber uint64 // random id, for SubscriberSilent and others of a publisher's subscribers
	// Relevant says of a publisher that it has announced a topic which is
	// subscribed here: it announces all its topics when it ends. Others in the
	// same group are none of ours. Of SubscriberUp, SubscriberLeft and SubscriberSilent it says that
	// the subscriber is known to want a topic which is published here.
	Relevant bool
	// Err is set for GroupFailed, GroupLost, TopicCollision, PublisherRefused,
	// PublisherFault, ConfigMismatch, ConfigDiffers, DictionaryMissing, SubscriptionEvicted,
	// PacketsUnreadable, Unfindable, Unmet, CannotSend and CannotReply, and may be for LegDown.
	Err error
	// OtherEpoch and OtherAddress are for DuplicateName. Address is that of the publisher or
	// subscriber that it is about, and of BadPackets, CannotReply and RepliesAgain. Addresses are the fabric's own text, empty where it has none.
	OtherEpoch            uint64
	Address, OtherAddress string

	For    time.Duration // how long it has lasted
	Behind uint64        // packets that are missing or were not read
	// Topics are those of the subscription, or the handlers, of this bus. In a subscription's
	// stream PublisherEnded, PublisherLost and PublisherRestarted have those that are subscribed
	// on this bus and that the publisher has announced, also if no message of them came.
	Topics []string
	Leg    string // for LegDown and LegBack: the URL that it was opened by
	Cause  string // for PacketsDropped: the label of one of Causes
	// Interface is for NoSubscriberHeard and NoPublisherHeard: the name of the network
	// interface, or the directory of shared memory, or those of all legs.
	Interface string
}

// holder is what holds a publisher up.
func (e *Event) holder(unread string) string {
	if len(e.Topics) == 0 {
		return "packets that did not arrive"
	}
	return strings.Join(e.Topics, ", ") + " with " + unread + " unread"
}

func (e Event) String() string {
	who := Who(e.Subscriber, e.Name, e.Address)
	d, behind := e.For.Round(time.Millisecond), plural.N(e.Behind, "packet")
	switch e.Kind {
	case SubscriberSilent:
		return fmt.Sprintf("%s: %s, for %v, %s behind (group %s)", e.Kind, who, d, behind, e.Group)
	case SubscriberUp:
		return fmt.Sprintf("%s: %s (group %s)", e.Kind, who, e.Group)
	case SubscriberLeft:
		return fmt.Sprintf("%s: %s, %s behind (group %s)", e.Kind, who, behind, e.Group)
	case PacketsDropped:
		return fmt.Sprintf("%s: %d so far, cause %s", e.Kind, e.Behind, e.Cause)
	case BadPackets:
		return fmt.Sprintf("%s: %d so far, the last one of publisher %s%s (group %s)", e.Kind, e.Behind, e.Publisher, at(e.Address), e.Group)
	case SlowSubscriber:
		return fmt.Sprintf("%s: %s has been too far behind for %v, now by %s, and is not waited for (group %s)", e.Kind, who, d, behind, e.Group)
	case StoodStill:
		return fmt.Sprintf("%s: this process did not run for %v: it was stopped, or its host gave it no processor time", e.Kind, d)
	case NoSubscriberHeard:
		return fmt.Sprintf("%s: nobody subscribed to %s was heard on %s for %v", e.Kind, strings.Join(e.Topics, ", "), e.Interface, d)
	case NoPublisherHeard:
		return fmt.Sprintf("%s: no publisher of %s was heard on %s for %v", e.Kind, strings.Join(e.Topics, ", "), e.Interface, d)
	case PublisherStalled, SubscriberReleased:
		return fmt.Sprintf("%s: %s has held it up for %v and is %s behind (group %s)", e.Kind, who, d, behind, e.Group)
	case CannotSend:
		return fmt.Sprintf("%s: nothing for %v, %s waiting: %v (group %s)", e.Kind, d, behind, e.Err, e.Group)
	case SendsAgain:
		return fmt.Sprintf("%s: after %v (group %s)", e.Kind, d, e.Group)
	case CannotReply:
		return fmt.Sprintf("%s: no NAK or status to %s for %v, %s not sent: %v", e.Kind, e.Address, d, behind, e.Err)
	case RepliesAgain:
		return fmt.Sprintf("%s: to %s, after %v", e.Kind, e.Address, d)
	case PublisherResumed:
		return fmt.Sprintf("%s: after %v, last held up by %s (group %s)", e.Kind, d, who, e.Group)
	case HoldsPublishersUp, ReleasedByPublisher:
		return fmt.Sprintf("%s: %s, held up for %v by %s (group %s)", e.Kind, e.Publisher, d, e.holder(behind), e.Group)
	case HandlerSlow, HandlerReturned:
		what := "OnEvent"
		if len(e.Topics) > 0 {
			what = "of " + strings.Join(e.Topics, ", ")
		}
		return fmt.Sprintf("%s: %s, after %v", e.Kind, what, d)
	case SubscriptionEvicted:
		return fmt.Sprintf("%s: %s, behind for %v, now by %s, behind publisher %s (group %s)", e.Kind, strings.Join(e.Topics, ", "), d, behind, Who(uint64(e.Publisher), e.Name, ""), e.Group)
	case SubscriptionNotRead:
		return fmt.Sprintf("%s: %s, for %v, with %s unread (group %s)", e.Kind, strings.Join(e.Topics, ", "), d, behind, e.Group)
	case GroupFailed, GroupLost, TopicCollision, PublisherRefused, PublisherFault, DictionaryMissing:
		return fmt.Sprintf("%s: %s: %v", e.Kind, e.Group, e.Err)
	case ConfigMismatch, PacketsUnreadable, Unfindable, Unmet: // of no group
		return fmt.Sprintf("%s: %v", e.Kind, e.Err)
	case ConfigDiffers:
		return fmt.Sprintf("%s: %v, which is harmless", e.Kind, e.Err)
	}
	if e.Kind == GroupBack {
		return fmt.Sprintf("%s: %s", e.Kind, e.Group)
	}
	if e.Kind == LegDown && e.Publisher == 0 {
		return fmt.Sprintf("%s: %s: %v; the others go on: mend it before one more fails", e.Kind, e.Leg, e.Err)
	}
	if e.Kind == LegBack && e.Publisher == 0 {
		return fmt.Sprintf("%s: %s, after %v", e.Kind, e.Leg, d)
	}
	publisher := e.Publisher.String()
	if e.Name != "" {
		publisher = e.Name + " " + publisher
	}
	if e.Kind == DuplicateName {
		return fmt.Sprintf("%s: two buses publish as %s, epoch %d%s and epoch %d%s: give each a name of its own (Config.Name, pub -name) (group %s)",
			e.Kind, publisher, e.Epoch, at(e.Address), e.OtherEpoch, at(e.OtherAddress), e.Group)
	}
	switch e.Kind {
	case LegDown:
		return fmt.Sprintf("%s: %s has not brought publisher %s for %v, which another leg brings: look at %s, and whether the publisher is open on it (group %s)", e.Kind, e.Leg, publisher, d, whereOf(e.Leg), e.Group)
	case LegBack:
		return fmt.Sprintf("%s: %s brings publisher %s again, after %v (group %s)", e.Kind, e.Leg, publisher, d, e.Group)
	}
	return fmt.Sprintf("%s: %s (group %s)", e.Kind, publisher, e.Group)
}

func at(address string) string {
	if address == "" {
		return ""
	}
	return " at " + address
}

// Who names a peer for people: by its name or else its id, and its address, as far as they are known.
func Who(peer uint64, name, address string) string {
	if name == "" {
		name = PublisherID(peer).String()
	}
	return name + at(address)
}

// whereOf is where to look for what a leg does not bring.
func whereOf(leg string) string {
	if strings.HasPrefix(leg, "shm://") {
		return "its memory, and whether both have the same directory (containers have one each)"
	}
	return "that leg's network"
}
