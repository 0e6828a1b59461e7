package logline

import "log/slog"

const (
	debug = slog.LevelDebug
	info  = slog.LevelInfo
	warn  = slog.LevelWarn
	fault = slog.LevelError
)

// publisher are the attributes that name a publisher, and subscriber those of a subscriber.
const (
	publisher  = "publisher name? epoch group"
	subscriber = "subscriber name address group"
)

// Publishers that this bus receives.
var (
	PublisherUp      = Line{info, "publisher up", publisher, "publisher_up", ofPeers, ""}
	PublisherUpToo   = Line{debug, "publisher up in another group", publisher, "publisher_up", each, ""}
	PublisherEnded   = Line{info, "publisher ended", publisher, "publisher_ended", ofPeers, ""}
	PublisherLost    = Line{warn, "publisher lost: it fell silent before its end", publisher, "publisher_lost", ofPeers, "See why it died, or what cut it off."}
	PublisherDown    = Line{info, "publisher down", publisher + " cause", "publisher_restarted", ofPeers, ""}
	PublisherDownToo = Line{debug, "publisher down in another group", publisher + " cause", "", each, ""}
	PublisherLeft    = Line{debug, "publisher not followed any more", publisher, "", each, ""}
	PublisherRefused = Line{warn, "packets of a publisher are refused, because a limit of this bus is reached", "publisher group reason", "publisher_refused", ofPeers, "Raise the limit that reason names: Config.MaxPublishers or Config.ReceiveMemoryBytes."}
	PublisherFault   = Line{warn, "a publisher breaks the protocol: its program is at fault, or an attacker forges its packets", "publisher fault topic times group", "publisher_fault", powers + "; " + ofPeers, "Find the program by its name."}
	DuplicateName    = Line{warn, "two buses publish under one name: messages of both are delivered, numbered by each for itself; give each a Config.Name of its own", "name publisher epoch address other_epoch other_address", "duplicate_name", "once a pair; " + ofPeers, "Give each bus a Config.Name of its own (pub -name)."}
	Namesake         = Line{warn, "another bus publishes under this bus's name: subscribers get the messages of both; if it is not a restart or an update of this one, give each a Config.Name of its own", "name publisher epoch ours heard", "", powers, "As for two buses of one name."}
	TopicCollision   = Line{fault, "a publisher's topic has the same id as one that is subscribed here: rename one of them", "publisher topic subscribed group", "topic_collision", ofPeers, "Rename one of the topics."}
	PatternCollision = Line{fault, "a topic that matches a pattern has the same id as another one: rename one of them", "topic err group", "", ofPeers, "Rename one of the topics."}
	TooManyTopics    = Line{warn, "a group has more topics than patterns can know: patterns do not get the messages of the others, and report gaps", publisher + " known", "", "once a group", "Spread the topics over more groups (groups= in the URL of all buses), or subscribe to them by their names."}
	Mismatch         = Line{warn, "another bus is configured differently, and messages do not pass between it and this one", "name publisher address version? groups? mapping? checksum? packet_size? legs? do", "config_mismatch", "once a start of the other bus; " + ofPeers, "See do."}
	MismatchHarmless = Line{info, "another bus is configured differently, which is harmless", "name publisher address version? groups? mapping? checksum? packet_size? legs?", "config_differs", "once a start of the other bus; " + ofPeers, ""}
)

// Packets.
var (
	PacketsLost       = Line{warn, "packets lost permanently", publisher + " first count cause packets_left_out?", "", "8 at once, then one a second", "See the cause in docs/operate/metrics.md."}
	BadPackets        = Line{warn, "packets were dropped because their checksum is missing or wrong: the network damages them, or an attacker forges them", "packets publisher address group", "bad_packets", powers + "; " + ofPeers, "Look at cables, cards and drivers on the way from address; or find the host that forges them (fanfare tap)."}
	DictionaryMissing = Line{fault, "packets are lost: a publisher compresses them with a dictionary that is not here; give it to this bus, too (Config.Dictionaries, -dict)", "publisher codec dictionary group", "dictionary_missing", "once a start of the publisher, group and dictionary; " + ofPeers, "Config.Dictionaries, sub -dict."}
	SendFailed        = Line{fault, "sending failed", "group err times", "", powers, "See err: an interface that is down, a route that is missing."}
	CannotSend        = Line{warn, "nothing can be sent, and publishers wait when there is no more room, whatever their flow control", "group for waiting_packets err", "cannot_send", doubling + ", of the first group where it is so; of the others for debugging", "See err: an interface that is down, a group that cannot be joined again, keys that have expired."}
	CannotSendToo     = Line{debug, CannotSend.Text, CannotSend.Attrs, "cannot_send", doubling, ""}
	SendsAgain        = Line{info, "what is published is sent again", "group after", "sends_again", "when that group's is", ""}
	SendsAgainToo     = Line{debug, SendsAgain.Text, SendsAgain.Attrs, "sends_again", each, ""}
	CannotReply       = Line{warn, "NAKs and statuses to a publisher cannot be sent: what is lost is not repaired, and that publisher does not wait for this bus", "address for packets err do", "cannot_reply", doubling + ", of each publisher; " + ofPeers, "See do, such as to add a route to that address."}
	RepliesAgain      = Line{info, "NAKs and statuses to a publisher are sent again", "address after", "replies_again", "once for each publisher that was reported; " + ofPeers, ""}
	WaitFailed        = Line{warn, "waiting for packets failed", "err", "", ofPeers, "See err."}
	PacketsDropped    = Line{warn, "packets were dropped by this host", "cause packets do", "packets_dropped", powers + ", looked at every 10 s; " + ofPeers, "See do."}
	PacketsMissed     = Line{info, "packets were lost on the way, or are none of this bus's", "cause packets do", "packets_dropped", powers + ", looked at every 10 s; " + ofPeers, "See do."}
)

// Subscribers of this bus's publishers.
var (
	SubscriberUp       = Line{info, "subscriber up", subscriber, "subscriber_up", once10s, ""}
	SubscriberLeft     = Line{info, "subscriber left", subscriber + " behind_packets", "subscriber_left", once10s, ""}
	SubscriberSilent   = Line{warn, "a subscriber fell silent and is not waited for any more", subscriber + " silent_for behind_packets", "subscriber_silent", once10s, "See whether it died, or what cuts it off."}
	SubscriberReleased = Line{warn, "a subscriber has blocked the publisher for longer than StallLimit and is released: it will have a gap", subscriber + " for behind_packets", "subscriber_released", once10s, "Have it read faster, or raise Config.StallLimit."}
	SlowSubscriber     = Line{warn, "a subscriber has stayed too far behind for too long and is released: it is not waited for until it is at most half as far behind", subscriber + " for behind_packets", "slow_subscriber", once10s, "Have it read faster, or raise Config.SlowBehind."}
	SubscriberTrails   = Line{warn, "a subscriber does not keep up: it lacks more packets than repairs have room for beside what is published", subscriber + " for received_packets_per_s published_packets_per_s behind_packets", "", doubling, "Publish less, or give it a faster link or processor; Config.FlowControl says whether others wait for it."}
	PublisherStalled   = Line{warn, "a subscriber blocks the publisher: it is present and does not read", subscriber + " for behind_packets", "publisher_stalled", doubling + "; " + once10s, "Have that subscriber read, or close it. Its own log says which subscription it is."}
	PublisherResumed   = Line{warn, "the publisher is no longer blocked", subscriber + " after", "publisher_resumed", once10s, ""}
)

// Subscriptions and handlers of this bus.
var (
	SubscriptionNotRead = Line{warn, "a subscription is not read and has no room for more: its publishers wait for it", "topics publisher group for unread_packets", "subscription_not_read", doubling + "; " + once10s, "Read it, close it, or choose another policy (SlowConsumer)."}
	HoldsByReading      = Line{warn, "this bus blocks a publisher: the subscription of these topics is not read", "publisher group for topics unread_packets", "holds_publishers_up", doubling + "; " + once10s, "As for a subscription that is not read."}
	HoldsByHandling     = Line{warn, "this bus blocks a publisher: handlers of these topics take too long", "publisher group for topics unread_packets", "holds_publishers_up", doubling + "; " + once10s, "Have the handlers return sooner."}
	HoldsByLoss         = Line{warn, "this bus blocks a publisher: packets do not arrive here, and all that arrived is read", "publisher group for topics unread_packets", "holds_publishers_up", doubling + "; " + once10s, "Find what keeps packets of that publisher, or its repairs, from this host; if only full ones are missing, MTUs differ (fanfare doctor -peer)."}
	ReleasedForReading  = Line{warn, "a publisher no longer waits for this bus, because this bus blocked it or stayed far behind for too long: the subscription of these topics is not read, and may have a gap", "publisher group for topics unread_packets", "released_by_a_publisher", once10s, "Read faster, or raise Config.StallLimit there."}
	ReleasedForHandling = Line{warn, "a publisher no longer waits for this bus, because this bus blocked it or stayed far behind for too long: handlers of these topics take too long, and may have a gap", "publisher group for topics unread_packets", "released_by_a_publisher", once10s, "Have the handlers return sooner, or raise Config.StallLimit there."}
	ReleasedForLoss     = Line{warn, "a publisher no longer waits for this bus, because this bus blocked it or stayed far behind for too long: packets did not arrive here, and may be a gap", "publisher group for topics unread_packets", "released_by_a_publisher", once10s, "As for packets that do not arrive."}
	SubscriptionEvicted = Line{warn, "a subscription reads too slowly and is ended: read it faster, or allow more (MaxBehind)", publisher + " topics for behind_packets allowed_packets", "subscription_evicted", "once a subscription", "Read it faster, or allow more (MaxBehind)."}
	HandlerSlow         = Line{warn, "a handler takes long, and blocks everything else on this bus: have it return, and do its work elsewhere", "handler so_far", "handler_slow", doubling, "Have it return, and do its work elsewhere."}
	HandlerBesideSlow   = Line{warn, "a handler that has a goroutine of its own takes long, and its subscription waits for it: what is not read meanwhile is lost by its policy, or replaced by what is newer", "handler so_far", "handler_slow", doubling, "Have it return, if that is not what you want."}
	KeySlow             = Line{warn, "the function that makes Conflate's keys takes long, and its subscription waits for it, as publishers may: have it return", "handler so_far", "handler_slow", doubling, "Have it return: it is called with each message."}
	HandlerReturned     = Line{warn, "slow handler returned", "handler after", "handler_returned", "once for each reported handler", ""}
	HandlerExited       = Line{fault, "a handler has ended the goroutine of the bus (runtime.Goexit), and the bus with it", "handler", "", "once: the bus has ended", "Have it return. FailNow, Fatal and Skip of a test, and require of testify, end the goroutine: use Error or assert. Open another bus."}
	HandlerBesideExited = Line{fault, "a handler that has a goroutine of its own has ended that (runtime.Goexit), and its subscription with it", "handler", "", "once a subscription", "Have it return, as for the goroutine of the bus. Subscribe again."}
	StoodStill          = Line{warn, "this process did not run: it was stopped, or its host gave it no processor time", "for", "stood_still", each, "See what stopped it (SIGSTOP, a debugger, a frozen container), or what else takes the processor."}
	NoSubscriberHeard   = Line{info, "no subscriber detected for this bus's topics: if there should be one, check that both are on one network, and the interface", "topics interface for", "no_subscriber_heard", "once a bus", "Give both the same iface= (for shm:// of two users the same group=) and keys=; try fanfare doctor -peer."}
	NoPublisherHeard    = Line{info, "no publisher detected for this bus's subscriptions: if there should be one, check that both are on one network, and the interface", "topics interface for", "no_publisher_heard", "once a bus", "As for no subscriber."}
	NoLoopback          = Line{warn, "the fabric does not return this bus's own packets to it: Loopback has no effect; for udp:// see its option loop, on an adapter let another process subscribe", "group", "", "once a group", "See the text."}
	StateFailed         = Line{fault, "the state of a topic could not be made: late joiners begin without it", "topic err", "", each, "See err: the program's own function has failed."}
	StateSlow           = Line{warn, "the function that makes a topic's state is slow: late joiners wait for it, also for the state of other topics of the group, and finally begin without it: have it return", "topic so_far", "", doubling, "Have it return sooner: keep the state ready, and write it."}
	StateReturned       = Line{warn, "slow state function returned", "topic after", "", "once for each reported function", ""}
	SearchFailed        = Line{debug, "looking for publishers that are configured differently failed", "group? err", "", each, ""}
	HelloFailed         = Line{warn, "no hello can be sent: buses that are configured differently will not be reported", "group err", "", "once a minute", "See err."}
)

// Groups and legs.
var (
	JoinFailed      = Line{fault, "joining a group failed", "group role err", "group_failed", "4 at once, then one a second", "See err: a wrong interface, no multicast on it, or a fabric that does not admit this host."}
	GroupLost       = Line{warn, "membership of a group was lost, joining again", "group role err", "group_lost", "the first group that is lost; the others for debugging", "Check the interface or the fabric."}
	GroupLostToo    = Line{debug, GroupLost.Text, GroupLost.Attrs, "group_lost", each, ""}
	GroupBack       = Line{debug, "membership of a group is back", "group role", "group_back", each, ""}
	GroupsBack      = Line{info, "all memberships of groups are back", "memberships latest", "group_back", "when the last one is back", ""}
	GroupMembership = Line{debug, "group membership", "group role state", "", each, ""}
	GroupLeft       = Line{debug, "left a group: it has no subscriptions any more", "group", "", each, ""}
	LeaveFailed     = Line{warn, "leaving a group failed: its packets may still arrive here", "group err", "", each, "See err."}
	LegDown         = Line{warn, "a leg is lost, and the others carry all traffic: repair it before another fails", "leg err", "leg_down", each, "Repair it before another fails."}
	LegBack         = Line{info, "a leg is back", "leg after", "leg_back", each, ""}
	LegSilent       = Line{warn, "packets of a publisher arrive on another leg, but not on this one: check this leg's network (shm://: whether both have the same directory, which containers have each for itself, and memory), and whether the publisher uses it", publisher + " leg for", "leg_down", once10s, "Check that leg's network and the publisher. Over `shm://` both need the same directory, which containers must share; otherwise omit that leg here."}
	LegHeard        = Line{debug, "packets of a publisher arrive on a leg again", publisher + " leg for", "leg_back", each, ""}
)

// Sealed groups, and open ones.
var (
	GroupsOpen        = Line{info, "the groups are open: any host on the network can read, forge and change all messages; keys=FILE in the URL seals them (fanfare key new)", "", "", "first, when the bus is opened", "Seal them where others share the network: docs/security.md."}
	GroupsSealed      = Line{info, "the groups are sealed", "key", "", "once, when the bus is opened", ""}
	NoKeyValid        = Line{warn, "the groups are sealed, and no key is valid now: nothing is sent until one is", "", "", "once, when the bus is opened", "fanfare key rotate, and look at the clock."}
	PacketsUnreadable = Line{warn, "packets cannot be opened, and are refused", "err", "packets_unreadable", "once for each reason and key, until the keys change; that clocks differ once a minute; of unknown or untrusted keys 64, and once that there are more", "See err: a bus without the keyring or with another one, clocks that differ, or forged packets."}
	KeyringChanged    = Line{info, "the keyring has changed", "file keys sending", "", "at each change", ""}
	KeyringHole       = Line{warn, "no key of the keyring is valid for a while, and nothing can be sent then", "from until", "", "for each such time, when the keyring is read", "Add a key that is valid then, or let the one before end later."}
	KeyringBad        = Line{fault, "the keyring cannot be read, and the keys stay as they were", "err", "", "once for each fault", "Correct the file as err says."}
)

// The transport, and the system below.
var (
	ReceiveBufferCapped = Line{warn, "the system caps the receive buffer, and with it the window that publishers may fill: raise it with sysctl -w net.core.rmem_max=BYTES", "asked_bytes granted_bytes", "", "once, when the bus is opened", "sysctl -w net.core.rmem_max=33554432"}
	TransportFailed     = Line{fault, "RDMA transport failed", "err", "", once, "See err. The bus has ended: open another."}
	QueuePairInError    = Line{warn, "RDMA queue pair is in error and is reset", "err", "", "when it has gone well for a while before", ""}
	QueuePairStalled    = Line{warn, "RDMA queue pair makes no progress and is reset", "err", "", "when it has gone well for a while before", ""}
	Unmet               = Line{warn, "this bus cannot meet other buses of its fabric: messages do not pass between them; see err", "err", "unmet", "once, until all were met", "Raise the limit of descriptors (ulimit -n, LimitNOFILE=), each endpoint of a fabric in shared memory takes two at each other one; or bring all processes to one version."}
	Unfindable          = Line{warn, "new processes can no longer discover this bus; existing connections continue: its files in shared memory were removed or replaced; restart this process, and have the files kept", "err", "unfindable", "once a bus", "Restart this process. systemd removes them when the user's last session ends (loginctl enable-linger USER, or RemoveIPC=no in logind.conf(5)); or choose another place (dir= in the URL)."}
	NoInspectSocket     = Line{debug, "fanfare top, web, loss and ls cannot see this process: it has no socket", "err", "", "once for each bus that is opened", ""}
	InspectDirForeign   = Line{warn, "fanfare top, web, loss and ls cannot see this process: the directory for its socket belongs to another user", "err", "", "once for each bus that is opened", "Find the owner of that directory and remove it, or set FANFARE_INSPECT to a directory of your own."}
	NoAddressHandle     = Line{debug, "no address handle to a sender", "sender err", "", each, ""}
	SendOnlyRefused     = Line{warn, "a send-only join was refused and a full one admitted, most likely because the subnet manager has no send-only members of multicast groups: publishing as full member without a queue pair, which works the same", "group", "", once, ""}
)

// Section is some lines of one subject.
type Section struct {
	Title string
	Lines []*Line
}

// Signed publishers.
var (
	PublishersSigned  = Line{info, "messages of this bus are signed", "key", "", "once, when the bus is opened", ""}
	PublishersTrusted = Line{info, "only messages of trusted publishers are delivered", "keys", "", "once, when the bus is opened", ""}
	TopicRefused      = Line{warn, "messages of a publisher are refused: its key is not trusted for the topic", "publisher fault topic times group", "publisher_fault", "once a publisher and topic, until the trust changes", "Add a line for its key to the file of trust=, or find the host that runs it."}
	TrustChanged      = Line{info, "the file of trust has changed", "file keys", "", "at each change", ""}
	TrustBad          = Line{fault, "the file of trust cannot be read, and the trusted keys stay as they were", "err", "", "once for each fault", "Correct the file as err says."}
)

// All are all lines.
var All = []Section{
	{"Publishers that this bus receives", []*Line{&PublisherUp, &PublisherUpToo, &PublisherEnded, &PublisherLost, &PublisherDown, &PublisherDownToo, &PublisherLeft, &PublisherRefused, &PublisherFault, &DuplicateName, &Namesake, &TopicCollision, &PatternCollision, &TooManyTopics, &Mismatch, &MismatchHarmless}},
	{"Packets", []*Line{&PacketsLost, &PacketsDropped, &PacketsMissed, &BadPackets, &DictionaryMissing, &SendFailed, &CannotSend, &CannotSendToo, &SendsAgain, &SendsAgainToo, &CannotReply, &RepliesAgain, &WaitFailed}},
	{"Subscribers of this bus's publishers", []*Line{&SubscriberUp, &SubscriberLeft, &SubscriberSilent, &SubscriberReleased, &SlowSubscriber, &SubscriberTrails, &PublisherStalled, &PublisherResumed}},
	{"Subscriptions and handlers of this bus", []*Line{&SubscriptionNotRead, &HoldsByReading, &HoldsByHandling, &HoldsByLoss, &ReleasedForReading, &ReleasedForHandling, &ReleasedForLoss, &SubscriptionEvicted, &HandlerSlow, &HandlerBesideSlow, &KeySlow, &HandlerReturned, &HandlerExited, &HandlerBesideExited, &StoodStill, &NoSubscriberHeard, &NoPublisherHeard, &NoLoopback, &StateFailed, &StateSlow, &StateReturned, &SearchFailed, &HelloFailed}},
	{"Groups and legs", []*Line{&JoinFailed, &GroupLost, &GroupLostToo, &GroupBack, &GroupsBack, &GroupMembership, &GroupLeft, &LeaveFailed, &LegDown, &LegBack, &LegSilent, &LegHeard}},
	{"Sealed groups, and open ones", []*Line{&GroupsOpen, &GroupsSealed, &NoKeyValid, &PacketsUnreadable, &KeyringChanged, &KeyringHole, &KeyringBad}},
	{"Signed publishers", []*Line{&PublishersSigned, &PublishersTrusted, &TopicRefused, &TrustChanged, &TrustBad}},
	{"The transport, and the system below", []*Line{&ReceiveBufferCapped, &TransportFailed, &QueuePairInError, &QueuePairStalled, &Unfindable, &Unmet, &NoInspectSocket, &InspectDirForeign, &NoAddressHandle, &SendOnlyRefused}},
}
