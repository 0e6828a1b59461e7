// Package events has what a bus reports about its peers, its groups and itself. pubsub.Config.OnEvent is called with
// each Event; pubsub.PublisherEvents adds some of them to a subscription's stream.
package events

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fanfaremq/fanfare/internal/plural"
)

// ID names a publisher, an epoch (a run) of one, a subscriber or a topic. In text, in JSON and in logs it is 16
// hexadecimal digits.
type ID uint64

func (id ID) String() string { return fmt.Sprintf("%016x", uint64(id)) }

// MarshalText writes what String does.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads what String writes.
func (id *ID) UnmarshalText(text []byte) error {
	v, err := strconv.ParseUint(string(text), 16, 64)
	if err != nil || len(text) != 16 {
		return fmt.Errorf("id %q is not 16 hexadecimal digits", text)
	}
	*id = ID(v)
	return nil
}

// Instance is one run of a publisher: its id and the epoch of the run. It names a stream within a group.
type Instance struct {
	Publisher ID `json:"publisher"`
	Epoch     ID `json:"epoch"`
}

// Kind says what happened.
type Kind uint8

// Kinds of events. "Repeated" means that the event is emitted after 1 s and again after 2 s, 4 s and so on. "At
// powers of two" means for the 1st, 2nd, 4th, 8th occurrence and so on.
const (
	// PublisherUp: the first packet of a publisher arrived, or the first one after it fell silent.
	PublisherUp Kind = iota
	// PublisherEnded: a publisher closed, and everything was delivered.
	PublisherEnded
	// PublisherLost: a publisher fell silent. It may come up again.
	PublisherLost
	// PublisherRestarted: a publisher fell silent, and packets of another instance of its name arrived since: most
	// likely it was restarted. As after PublisherLost it may come up again.
	PublisherRestarted
	// SubscriberSilent: a subscriber answered none of the solicitations and is no longer waited for.
	SubscriberSilent
	// GroupFailed: a group could not be joined. Err has the reason.
	GroupFailed
	// GroupLost: the membership of a group was dropped by the interface or the fabric; it is joined again. Err says why.
	GroupLost
	// GroupBack: a group that was lost is joined again.
	GroupBack
	// TopicCollision: a publisher uses the id of a subscribed topic for another name. Err is a *TopicCollisionError.
	TopicCollision
	// PublisherRefused: packets of a publisher are not delivered. Err is a *PublisherRefusedError.
	PublisherRefused
	// DuplicateName: two buses with the same Config.Name have published at the same time for more than 5 s, which
	// restarts and most rolling updates do not. Messages of both are delivered; Message.Epoch distinguishes them.
	// Epoch and Address are those of the bus that came up later, OtherEpoch and OtherAddress those of the other.
	DuplicateName
	// PublisherStalled: a subscriber has blocked this bus's publishers of a group for For, and is Behind packets behind.
	// It is alive and does not read, unless Err says that it does not answer, that packets do not reach it, or that this
	// bus is cut off. Repeated.
	PublisherStalled
	// PublisherResumed: no subscriber holds up this bus's publishers of the group any longer, after For. The event
	// names the subscriber that did last.
	PublisherResumed
	// SubscriberReleased: a subscriber has blocked this bus's publishers for longer than Config.StallLimit, and is not
	// waited for until it has caught up. Err is as for PublisherStalled.
	SubscriberReleased
	// HoldsPublishersUp: a publisher reports that this bus has held it up for For. The subscription of Topics is not
	// read or, if Behind is 0, handlers of Topics take long. Without Topics packets do not arrive. Repeated.
	HoldsPublishersUp
	// SubscriptionNotRead: a subscription of this bus, to Topics, has not been read for For and is full: it holds up
	// the publishers that wait for it, and other subscriptions of this bus. Repeated.
	SubscriptionNotRead
	// HandlerSlow: a handler of Topics, or OnEvent if Topics is empty, has run for For, or a batch of its messages has: it
	// blocks this bus. With a goroutine of its own, or as the key function of Conflate, it blocks its subscription only;
	// For is then a lower bound. Repeated: OnEvent is called from another goroutine, but never twice at a time.
	HandlerSlow
	// HandlerReturned: a handler that HandlerSlow reported has returned, after For.
	HandlerReturned
	// ReleasedByPublisher: a publisher that this bus blocked for For no longer waits for it. Messages that the
	// publisher has dropped by the time Topics are read are a gap of CauseReleased.
	ReleasedByPublisher
	// ConfigMismatch: another bus on the same addresses is configured differently: one of the two may not receive the
	// other's packets. Err is a *ConfigMismatchError. Relevant: it may publish a topic that is subscribed here, or
	// subscribe to one that is published here. Once for each start of the other bus.
	ConfigMismatch
	// SlowSubscriber: a subscriber has been more than Config.SlowBehind behind for For, or as far as it can be, and is
	// not waited for until it is at most half as far behind.
	SlowSubscriber
	// PublisherFault: a publisher breaks the rules of the protocol. Err is a *FaultError.
	PublisherFault
	// LegDown: a leg of a bus with several URLs, Leg, carries less than another one, or no leg works. While one works
	// nothing is lost, but the next failure is not covered. Err has the reason if the fabric gave one; otherwise no
	// packet of Publisher has arrived on the leg for For.
	LegDown
	// LegBack: the leg carries everything again, after For.
	LegBack
	// SubscriptionEvicted: a subscription of this bus with SlowEvict, to Topics, was ended: it was Behind packets
	// behind the publisher, and had been behind for For. Err is the *EvictedError with which it ends.
	SubscriptionEvicted
	// SubscriberUp: a subscriber of this bus's publishers of a group has come up; flow control waits for it from now on.
	SubscriberUp
	// SubscriberLeft: a subscriber has left, Behind packets behind.
	SubscriberLeft
	// BadPackets: packets of publishers were dropped because their checksum is missing or wrong, Behind of them since the
	// group was joined. The last one came from Address and names Publisher. Or NAKs, statuses or replies to this bus's
	// publishers were refused: Err has the reason. At powers of two.
	BadPackets
	// DictionaryMissing: a publisher compresses its packets with a dictionary that this bus does not have
	// (Config.Dictionaries). They are lost, with gaps of CauseUnreadable. Err is a *DictionaryError. Once for each
	// start of the publisher, group and dictionary.
	DictionaryMissing
	// PacketsUnreadable: packets arrive that this bus refuses: they are sealed with a key that it lacks, not sealed at
	// all, or do not verify. Err, an *UnreadableError, has the reason, the source of the first one and the remedy. Once
	// for each reason and key, until the keys change; after 64 unknown or untrusted keys once that there are more.
	PacketsUnreadable
	// PacketsDropped: this host dropped packets, or they were lost on the way here, for Cause: Behind of them so far,
	// repaired afterwards or not. At powers of two, at most some ten seconds late.
	PacketsDropped
	// StoodStill: this process did not run for For, 2 s or more: it was stopped, or its host gave it no processor time.
	// Packets may be lost, and publishers may have released this bus.
	StoodStill
	// NoSubscriberHeard: this bus has published on Topics, or waited for subscribers, for For, and detected no subscriber
	// of them on Interface. A hint, emitted once: there may be none. Not on mem:// and sim://.
	NoSubscriberHeard
	// NoPublisherHeard: as NoSubscriberHeard, for the subscriptions of this bus.
	NoPublisherHeard
	// Unfindable: new processes can no longer discover this bus; existing connections continue. Over shm:// its files were
	// removed. Err has the reason and the remedy. Once a bus; of several URLs a LegDown without a LegBack instead.
	Unfindable
	// Unmet: this bus cannot connect to other buses, over shm:// for lack of descriptors or because of another version.
	// Err has their number, the reason and the remedy. Emitted again only after all were connected.
	Unmet
	// CannotSend: the network, or a layer below this bus, has accepted no packet of a group for For. Behind packets wait,
	// and publishers wait when there is no more room, with every flow control. Err has the reason. Repeated.
	CannotSend
	// SendsAgain: the condition of CannotSend has ended, after For.
	SendsAgain
	// ConfigDiffers: another bus is configured differently, and the two receive each other's packets all the same: the
	// packet size or the legs differ. Otherwise as ConfigMismatch.
	ConfigDiffers
	// CannotReply: for For no NAK, status or answer could be sent to the publisher at Address; Behind packets were not
	// sent. Its losses are not repaired, and it does not wait for this bus. Err has the reason and the remedy. Repeated.
	CannotReply
	// RepliesAgain: the condition of CannotReply has ended, after For.
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

// textOf is the text of k, and what it is and its number if there is none.
func textOf(k uint8, texts []string, what string) string {
	if int(k) < len(texts) {
		return texts[k]
	}
	return fmt.Sprintf("%s(%d)", what, k)
}

func (k Kind) String() string { return textOf(uint8(k), texts[:], "event") }

// Label is the kind as one word that never changes, as metrics have it: publisher_up.
func (k Kind) Label() string { return strings.ReplaceAll(k.String(), " ", "_") }

// Event is something that happened on the bus.
type Event struct {
	Kind      Kind
	Group     string // address of the group
	Publisher ID     // for publisher events
	// Name is the Config.Name of the publisher; empty if it has none, or is not known yet. Of a subscriber it is its
	// Config.Name, or without one its host and process.
	Name       string
	Epoch      ID // for publisher events
	Subscriber ID // random id, for SubscriberSilent and others of a publisher's subscribers
	// Relevant: the publisher has named a topic that is subscribed here. For SubscriberUp, SubscriberLeft and
	// SubscriberSilent: the subscriber is known to want a topic that is published here.
	Relevant bool
	// Err is the reason, for the kinds that have one. For PublisherLost and SubscriberSilent it is why this bus itself
	// was cut off, nil if it was not.
	Err error
	// Address is that of the publisher or subscriber, also for BadPackets, CannotReply and RepliesAgain: the fabric's
	// own text, empty where it has none. OtherEpoch and OtherAddress are for DuplicateName.
	OtherEpoch            ID
	Address, OtherAddress string

	For    time.Duration // duration so far
	Behind uint64        // packets missing, unread or unsent, as the kind says
	// Topics are those of the subscription, or of the handlers, of this bus. In a subscription's stream
	// PublisherEnded, PublisherLost and PublisherRestarted have those that are subscribed on this bus and that the
	// publisher has named, even if no message of them arrived.
	Topics []string
	Leg    string // for LegDown and LegBack: the URL that it was opened by
	Cause  string // for PacketsDropped: the label of one of Causes
	// Interface is for NoSubscriberHeard and NoPublisherHeard: the name of the network
	// interface, or the directory of shared memory, or those of all legs.
	Interface string
}

// holder names what holds a publisher up.
func (e *Event) holder(unread string) string {
	if len(e.Topics) == 0 {
		return "packets that did not arrive"
	}
	return strings.Join(e.Topics, ", ") + " with " + unread + " unread"
}

func (e Event) String() string {
	peer := PeerText(e.Subscriber, e.Name, e.Address)
	d, behind, why := plural.Duration(e.For), plural.N(e.Behind, "packet"), ""
	if e.Err != nil {
		why = ": " + e.Err.Error()
	}
	publisher := strings.TrimLeft(e.Name+" "+e.Publisher.String(), " ")
	switch e.Kind {
	case SubscriberSilent:
		return fmt.Sprintf("%s: %s, for %v, %s behind%s (group %s)", e.Kind, peer, d, behind, why, e.Group)
	case SubscriberUp:
		return fmt.Sprintf("%s: %s (group %s)", e.Kind, peer, e.Group)
	case SubscriberLeft:
		return fmt.Sprintf("%s: %s, %s behind (group %s)", e.Kind, peer, behind, e.Group)
	case PacketsDropped:
		return fmt.Sprintf("%s: %d so far, cause %s", e.Kind, e.Behind, e.Cause)
	case BadPackets:
		peer = "publisher " + e.Publisher.String()
		if e.Err != nil {
			peer = "a subscriber"
		}
		return fmt.Sprintf("%s: %d so far, the last one of %s%s%s (group %s)", e.Kind, e.Behind, peer, at(e.Address), why, e.Group)
	case SlowSubscriber:
		return fmt.Sprintf("%s: %s has been too far behind for %v, now by %s, and is not waited for (group %s)", e.Kind, peer, d, behind, e.Group)
	case StoodStill:
		return fmt.Sprintf("%s: this process did not run for %v: it was stopped, or its host gave it no processor time", e.Kind, d)
	case NoSubscriberHeard, NoPublisherHeard:
		kind := map[Kind]string{NoSubscriberHeard: "subscriber", NoPublisherHeard: "publisher"}[e.Kind]
		return fmt.Sprintf("%s: no %s of %s was detected on %s for %v", e.Kind, kind, strings.Join(e.Topics, ", "), e.Interface, d)
	case PublisherStalled, SubscriberReleased:
		return fmt.Sprintf("%s: %s has held it up for %v and is %s behind%s (group %s)", e.Kind, peer, d, behind, why, e.Group)
	case CannotSend:
		return fmt.Sprintf("%s: nothing was sent for %v, %s waiting: %v (group %s)", e.Kind, d, behind, e.Err, e.Group)
	case SendsAgain:
		return fmt.Sprintf("%s: after %v (group %s)", e.Kind, d, e.Group)
	case CannotReply:
		return fmt.Sprintf("%s: no NAK or status to %s for %v, %s not sent: %v", e.Kind, e.Address, d, behind, e.Err)
	case RepliesAgain:
		return fmt.Sprintf("%s: to %s, after %v", e.Kind, e.Address, d)
	case PublisherResumed:
		return fmt.Sprintf("%s: after %v, last blocked by %s (group %s)", e.Kind, d, peer, e.Group)
	case HoldsPublishersUp, ReleasedByPublisher:
		return fmt.Sprintf("%s: %s, blocked for %v by %s (group %s)", e.Kind, PeerText(e.Publisher, e.Name, ""), d, e.holder(behind), e.Group)
	case HandlerSlow, HandlerReturned:
		what := "OnEvent"
		if len(e.Topics) > 0 {
			what = "of " + strings.Join(e.Topics, ", ")
		}
		return fmt.Sprintf("%s: %s, after %v", e.Kind, what, d)
	case SubscriptionEvicted:
		return fmt.Sprintf("%s: %s, behind for %v, now by %s, behind publisher %s (group %s)", e.Kind, strings.Join(e.Topics, ", "), d, behind, PeerText(e.Publisher, e.Name, ""), e.Group)
	case SubscriptionNotRead:
		return fmt.Sprintf("%s: %s, for %v, with %s unread (group %s)", e.Kind, strings.Join(e.Topics, ", "), d, behind, e.Group)
	case DuplicateName:
		return fmt.Sprintf("%s: two buses publish as %s, epoch %v%s and epoch %v%s: give each a name of its own (Config.Name, pub -name) (group %s)",
			e.Kind, publisher, e.Epoch, at(e.Address), e.OtherEpoch, at(e.OtherAddress), e.Group)
	case LegDown:
		if e.Publisher == 0 {
			return fmt.Sprintf("%s: %s: %v", e.Kind, e.Leg, e.Err)
		}
		return fmt.Sprintf("%s: %s has delivered no packet of publisher %s for %v, and another leg has: check %s, and whether the publisher is open on it (group %s)", e.Kind, e.Leg, publisher, d, whereOf(e.Leg), e.Group)
	case LegBack:
		if e.Publisher == 0 {
			return fmt.Sprintf("%s: %s, after %v", e.Kind, e.Leg, d)
		}
		return fmt.Sprintf("%s: %s delivers packets of publisher %s again, after %v (group %s)", e.Kind, e.Leg, publisher, d, e.Group)
	case GroupFailed, GroupLost, GroupBack, TopicCollision, PublisherRefused, PublisherFault, DictionaryMissing:
		return fmt.Sprintf("%s: %s%s", e.Kind, e.Group, why)
	case ConfigMismatch, PacketsUnreadable, Unfindable, Unmet: // of no group
		return e.Kind.String() + why
	case ConfigDiffers:
		return e.Kind.String() + why + ", which is harmless"
	}
	return fmt.Sprintf("%s: %s%s (group %s)", e.Kind, publisher, why, e.Group)
}

func at(address string) string {
	if address == "" {
		return ""
	}
	return " at " + address
}

// PeerText names a peer for people: by its name, or by its id if it has none, and by its address if that is known.
func PeerText(peer ID, name, address string) string {
	if name == "" {
		name = peer.String()
	}
	return name + at(address)
}

// whereOf names what to check if a leg delivers nothing.
func whereOf(leg string) string {
	if strings.HasPrefix(leg, "shm://") {
		return "its memory, and whether both have the same directory (containers have one each)"
	}
	return "that leg's network"
}
