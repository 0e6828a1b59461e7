package report

import (
	"log/slog"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

const (
	debug = slog.LevelDebug
	info  = slog.LevelInfo
	warn  = slog.LevelWarn
	fault = slog.LevelError
)

// none is the event of a line without one.
const none = events.Kinds

// publisher has the attributes that name a publisher, subscriber those that name a subscriber.
const (
	publisher  = "publisher name? epoch group"
	subscriber = "subscriber name address group"
)

// Advice for several conditions.
const (
	toRead   = "Read it, close it, or choose another policy (SlowConsumer)."
	toArrive = "Find out what keeps packets from this host; if only full ones are missing, MTUs differ (fanfare doctor -peer)."
	toAnswer = `{{if .Err}}Check whether {{or .Subscriber "that subscriber"}} runs, and the network between: {{said .Err ""}}.{{else}}`
	// NoLeg ends the error of the event of LegsDown.
	NoLeg    = "no leg is left"
	toDetect = "Give both the same iface= (for shm:// of two users the same group=) and keys=; try fanfare doctor -peer."
)

// Publishers that this bus receives.
var (
	PublisherUp    = line(info, "publisher up", publisher, events.PublisherUp, ofPeers, "")
	PublisherEnded = line(info, "publisher ended", publisher, events.PublisherEnded, ofPeers, "")
	PublisherLost  = line(warn, "publisher lost: it fell silent before its end", publisher, events.PublisherLost, ofPeers, `{{if .Err}}Connect {{or .Process "this process"}} again: {{said .Err ""}}.{{else}}Find out why {{or .Publisher "the publisher"}} died, was stopped or disconnected: see its log, its host, the network between.{{end}}`,
		Loss{}, Alert{Name: "FanfarePublisherLost", Within: "5m", Severity: warning})
	PublisherCutOff = line(warn, "publisher lost: this bus itself was cut off from the group", publisher+" err", events.PublisherLost, ofPeers, "See err: an interface of this host that is down.")
	PublisherBack   = line(warn, "publisher is received again", publisher, events.PublisherUp, ofPeers, "")
	PublisherDown   = line(info, "publisher down", publisher+" cause", events.PublisherRestarted, ofPeers, `Find out why {{or .Publisher "the publisher"}} was not closed: Close waits until subscribers have everything.`,
		Loss{Why: "The publisher fell silent, and another instance with its name was started."})
	PublisherLeft    = line(debug, "publisher no longer received in a group that was left", publisher, none, each, "")
	PublisherRefused = line(warn, "packets of a publisher are refused, because a limit of this bus is reached", "publisher group reason", events.PublisherRefused, ofPeers, `Raise the limit of {{or .Process "this process"}} that the reason names, Config.MaxPublishers or Config.ReceiveMemoryBytes{{because .Err}}.`,
		Loss{})
	PublisherFault = line(warn, "a publisher breaks the protocol: its program is at fault, or an attacker forges its packets", "publisher fault topic times group", events.PublisherFault, powers+"; "+ofPeers, `Find the program of {{or .Publisher "that publisher"}}, or the host that forges its packets; or add a line for its key to the file of trust=: {{said .Err "the log has the fault"}}.`,
		Loss{}, Alert{Name: "FanfarePublisherFault", Within: "15m", Severity: critical})
	DuplicateName = line(warn, "two buses publish under one name: the messages of both are delivered, with separate numbers; give each a different Config.Name", "name publisher epoch address other_epoch other_address", events.DuplicateName, "once a pair; "+ofPeers, `Give each bus a different Config.Name (pub -name): one is {{or .Publisher "in the log"}}{{because .Err}}.`,
		Loss{}, Alert{Name: "FanfareDuplicateName", Within: "15m", Severity: warning})
	Namesake       = line(warn, "another bus publishes under this bus's name: subscribers get the messages of both; if it is not a restart or an update of this one, give each a different Config.Name", "name publisher epoch ours heard", none, powers, "See the text.")
	TopicCollision = line(fault, "a publisher's topic has the same id as a topic that this bus subscribes to: rename one of them", "publisher topic subscribed group", events.TopicCollision, ofPeers, `Rename one of the two topics: {{said .Err "the log names them"}}.`,
		Loss{}, Alert{Name: "FanfareTopicCollision", Within: "15m", Severity: critical})
	PatternCollision = line(fault, "a topic that matches a pattern has the same id as another one: rename one of them", "topic err group", none, ofPeers, "See the text.")
	TooManyTopics    = line(warn, "a group has more topics than patterns can know: patterns do not get the messages of the others, and report gaps", publisher+" known", none, "once a group", "Use more groups (groups= in the URL of all buses), or subscribe to topics by their names.")
	Mismatch         = line(warn, "another bus is configured differently, and messages do not pass between it and this one", "name publisher address version? groups? mapping? checksum? packet_size? legs? do", events.ConfigMismatch, "once a start of the other bus; "+ofPeers, `Give both the same configuration: {{said .Err "the log has the differences"}}.`,
		Loss{}, Alert{Name: "FanfareConfigMismatch", Within: "15m", Severity: critical})
	MismatchHarmless = line(info, "another bus is configured differently, which is harmless", "name publisher address version? groups? mapping? checksum? packet_size? legs?", events.ConfigDiffers, "once a start of the other bus; "+ofPeers, "")
)

// Packets.
var (
	PacketsLost = line(warn, "packets lost permanently", publisher+" first count cause packets_left_out?", none, "8 at once, then one a second", "See the cause in docs/operate/metrics.md.")
	BadPackets  = line(warn, "packets were dropped because their checksum is missing or wrong: the network damages them, or an attacker forges them", "packets publisher address group", events.BadPackets, powers+"; "+once10s, `Check cable, network card and driver between {{or .Address "the host that the log names"}} and this host (ethtool -S), and the program there, or find out whether packets are forged (fanfare tap){{because .Err}}.`,
		Loss{Why: "Packets from that host were dropped: they were damaged, or no publisher or subscriber may send them."})
	RepliesRefused    = line(warn, "NAKs or statuses of a subscriber are refused", "packets address reason group", events.BadPackets, powers+"; "+once10s, "See reason. Check cables, network cards and drivers on the path, and the program at address, which may forge them (fanfare tap).")
	DictionaryMissing = line(fault, "packets are lost: a publisher compresses them with a dictionary that this bus does not have; give it to this bus, too (Config.Dictionaries, -dict)", "publisher codec dictionary group", events.DictionaryMissing, once10s, `Give {{or .Process "this process"}} the dictionary of {{or .Publisher "the publisher"}} (Config.Dictionaries, sub -dict): {{said .Err "the log names it"}}.`,
		Loss{})
	SendFailed = line(fault, "sending failed", "group err times", none, powers+"; once in 10 s", "See err: an interface that is down, a route that is missing.")
	CannotSend = line(warn, "nothing can be sent, and publishers wait when there is no more room, whatever their flow control", "group for waiting_packets err", events.CannotSend, doubling+"; once in 10 s", `Remove the reason why {{or .Process "this process"}} cannot send, such as an interface that is down, a group that cannot be joined again, or expired keys: {{said .Err "the log has it"}}.`,
		Loss{}, Alert{Name: "FanfareCannotSend", Expr: `fanfare_publish_stuck_seconds > 2`, Severity: critical, Summary: "{{ $labels.instance }} cannot send its messages in {{ $labels.group }}"})
	SendsAgain  = line(warn, "sending works again", "group after", events.SendsAgain, "once in 10 s", "")
	CannotReply = line(warn, "NAKs and statuses to a publisher cannot be sent: lost packets are not repaired, and that publisher does not wait for this bus", "address for packets err do", events.CannotReply, doubling+", of each publisher; "+ofPeers, `Make it possible for {{or .Process "this process"}} to send to {{or .Address "that publisher"}}, usually by a route to that address: {{said .Err "the log has the reason"}}.`,
		Loss{}, Alert{Name: "FanfareCannotReply", Within: "15m", Severity: critical})
	RepliesAgain   = line(info, "NAKs and statuses reach a publisher again", "address after", events.RepliesAgain, "once for each publisher that was reported; "+ofPeers, "")
	WaitFailed     = line(warn, "waiting for packets failed", "err", none, ofPeers, "See err.")
	PacketsDropped = line(warn, "packets were dropped by this host", "cause packets do", events.PacketsDropped, powers+", checked every 10 s; "+ofPeers, "See do.")
	PacketsMissed  = line(info, "packets were lost in the network, or are not for this bus", "cause packets do", events.PacketsDropped, powers+", checked every 10 s; "+ofPeers, "See do.")
)

// Subscribers of this bus's publishers.
var (
	SubscriberUp     = line(info, "subscriber up", subscriber, events.SubscriberUp, once10s, "")
	SubscriberLeft   = line(info, "subscriber left", subscriber+" behind_packets", events.SubscriberLeft, once10s, "")
	SubscriberSilent = line(warn, "a subscriber fell silent, and publishers no longer wait for it", subscriber+" silent_for behind_packets", events.SubscriberSilent, once10s, `{{if .Err}}Connect {{or .Process "this process"}} again: {{said .Err ""}}.{{else}}Find out whether {{or .Subscriber "that subscriber"}} still runs: was it killed, stopped, or disconnected? If only its host did not run for a while, such as a container that had used up its processor time, raise Config.Silence of the publisher (1 s unless set; pub -silence).{{end}}`,
		Loss{OfSubscriber: true}, Alert{Name: "FanfareSubscriberSilent", Within: "5m", Severity: warning})
	SubscriberCutOff   = line(warn, "publishers no longer wait for a subscriber: this bus itself was cut off from the group", subscriber+" silent_for behind_packets err", events.SubscriberSilent, once10s, "See err: an interface of this host that is down.")
	SubscriberReleased = line(warn, "a subscriber has blocked the publisher for longer than StallLimit and is released: it will have a gap", subscriber+" for behind_packets", events.SubscriberReleased, once10s, toAnswer+`Find out why {{or .Subscriber "that subscriber"}} does not read (fanfare loss on its host names the subscription), or raise Config.StallLimit.{{end}}`,
		Loss{OfSubscriber: true})
	SlowSubscriber = line(warn, "a subscriber has stayed too far behind for too long and is released: the publisher does not wait for it until it is at most half as far behind", subscriber+" for behind_packets", events.SlowSubscriber, once10s, toAnswer+`Make {{or .Subscriber "that subscriber"}} faster, or raise Config.SlowBehind of this publisher (pub -slow-behind).{{end}}`,
		Loss{OfSubscriber: true})
	SubscriberTrails = line(warn, "a subscriber does not keep up: it misses more packets than can be repaired in addition to what is published", subscriber+" for received_packets_per_s published_packets_per_s behind_packets", none, doubling+"; "+once10s, "Find out where its packets are lost (fanfare loss there), publish less, or give it a faster link or processor.")
	PublisherStalled = line(warn, "a subscriber blocks the publisher: it is present but does not read", subscriber+" for behind_packets", events.PublisherStalled, doubling+"; "+once10s, "Make that subscriber read, or close it. Its own log names the subscription.",
		Alert{Name: "FanfarePublisherStalled", Within: "5m", Severity: warning})
	StalledBySilence = line(warn, "a subscriber blocks the publisher and does not answer, or this bus is cut off from it", subscriber+" for behind_packets err", events.PublisherStalled, doubling+"; "+once10s, "See err. Check whether the subscriber runs, and the network between.")
	StalledByLoss    = line(warn, "a subscriber blocks the publisher: it answers, but packets do not reach it", subscriber+" for behind_packets", events.PublisherStalled, doubling+"; "+once10s, "See fanfare loss there.")
	PublisherResumed = line(warn, "the publisher is no longer blocked", subscriber+" after", events.PublisherResumed, once10s, "")
)

// Subscriptions and handlers of this bus.
var (
	SubscriptionNotRead = line(warn, "a subscription is not read and has no room for more: its publishers wait for it", "topics publisher group for unread_packets", events.SubscriptionNotRead, doubling+"; "+once10s, toRead)
	HoldsByReading      = line(warn, "this bus blocks a publisher: the subscription of these topics is not read", "publisher group for topics unread_packets", events.HoldsPublishersUp, doubling+"; "+once10s, toRead)
	HoldsByHandling     = line(warn, "this bus blocks a publisher: handlers of these topics take too long", "publisher group for topics unread_packets", events.HoldsPublishersUp, doubling+"; "+once10s, "Make the handlers return sooner.")
	HoldsByLoss         = line(warn, "this bus blocks a publisher: packets do not arrive here, and all that arrived is read", "publisher group for topics unread_packets", events.HoldsPublishersUp, doubling+"; "+once10s, toArrive)
	ReleasedForReading  = line(warn, "a publisher no longer waits for this bus, which blocked it or stayed far behind: the subscription of these topics is not read, and may have a gap", "publisher group for topics unread_packets", events.ReleasedByPublisher, once10s, `{{if .Idle}}{{notArriving .}}{{else}}Make the reader of {{reader . "the subscription"}} faster, give it a policy that blocks no publisher (sub -slow latest), or raise Config.StallLimit of the publisher.{{end}}`,
		Loss{Why: "A publisher no longer waits for this bus, because this bus blocked it."}, Alert{Name: "FanfareLetGo", Expr: `increase(fanfare_events_total{event=~"released_by_a_publisher|subscription_evicted"}[5m]) > 0`, Severity: critical, Summary: "A subscription of {{ $labels.instance }} read too slowly and was released: {{ $labels.event }}"})
	ReleasedForHandling = line(warn, "a publisher no longer waits for this bus, which blocked it or stayed far behind: handlers of these topics take too long, and may have a gap", "publisher group for topics unread_packets", events.ReleasedByPublisher, once10s, "Make the handlers return sooner, or raise Config.StallLimit there.")
	ReleasedForLoss     = line(warn, "a publisher no longer waits for this bus, which blocked it or stayed far behind: packets did not arrive here, which may cause a gap", "publisher group for topics unread_packets", events.ReleasedByPublisher, once10s, toArrive)
	SubscriptionEvicted = line(warn, "a subscription reads too slowly and is ended: read it faster, or allow more (MaxBehind)", publisher+" topics for behind_packets allowed_packets", events.SubscriptionEvicted, "once a subscription", `Make the reader of {{reader . "the subscription"}} faster, allow more (MaxBehind, sub -behind), or choose a policy other than evict; and subscribe again.`,
		Loss{})
	HandlerSlow         = line(warn, "a handler takes long, and blocks everything else on this bus: do its work in another goroutine", "handler so_far", events.HandlerSlow, doubling, "See the text.")
	HandlerBesideSlow   = line(warn, "a handler with a separate goroutine takes long, and its subscription waits for it: by its policy unread messages are lost, or replaced by newer ones", "handler so_far", events.HandlerSlow, doubling, "Make it return sooner, unless this is intended.")
	KeySlow             = line(warn, "the key function of Conflate takes long, and its subscription waits for it, as publishers may: make it return", "handler so_far", events.HandlerSlow, doubling, "Make it return sooner: it is called with each message.")
	HandlerReturned     = line(warn, "slow handler returned", "handler after", events.HandlerReturned, "once for each reported handler", "")
	HandlerExited       = line(fault, "a handler has ended the goroutine of the bus (runtime.Goexit), and the bus with it", "handler", none, "once: the bus has ended", "Make it return. FailNow, Fatal and Skip of a test, and require of testify, end the goroutine: use Error or assert. Open another bus.")
	HandlerBesideExited = line(fault, "a handler has ended its separate goroutine (runtime.Goexit), and its subscription with it", "handler", none, "once a subscription", "Make it return: FailNow, Fatal and Skip of a test end the goroutine. Subscribe again.")
	StoodStill          = line(warn, "this process did not run: it was stopped, or its host gave it no processor time", "for", events.StoodStill, each, `Find out what stopped {{or .Process "this process"}} (SIGSTOP, a debugger, a frozen container), or what else uses the processor.`,
		Loss{}, Alert{Name: "FanfareStoodStill", Within: "5m", Severity: warning})
	NoSubscriberHeard = line(info, "no subscriber detected for this bus's topics: if there should be one, check that both are on one network and use the right interface", "topics interface for", events.NoSubscriberHeard, "once a bus", toDetect)
	NoPublisherHeard  = line(info, "no publisher detected for this bus's subscriptions: if there should be one, check that both are on one network and use the right interface", "topics interface for", events.NoPublisherHeard, "once a bus", toDetect)
	NoLoopback        = line(warn, "the fabric does not return this bus's own packets to it: Loopback has no effect; for udp:// see its option loop, on an adapter let another process subscribe", "group", none, "once a group", "See the text.")
	StateFailed       = line(fault, "the state of a topic could not be made: late joiners start without it", "topic err", none, each, "See err: the program's function failed.")
	StateSlow         = line(warn, "the function that makes a topic's state is slow: late joiners wait for it, also for the state of other topics of the group, and finally start without it: make it return", "topic so_far", none, doubling, "Make it return sooner: keep the state ready, and write it.")
	StateReturned     = line(warn, "slow state function returned", "topic after", none, "once for each reported function", "")
	SearchFailed      = line(debug, "the search for publishers that are configured differently failed", "group? err", none, each, "")
	HelloFailed       = line(warn, "no hello can be sent: buses that are configured differently will not be reported", "group err", none, "once a minute", "See err.")
)

// Groups and legs.
var (
	JoinFailed = line(fault, "joining a group failed", "group role err", events.GroupFailed, "4 at once, then one a second", `Check the interface, its multicast, and whether the fabric permits this host; fanfare doctor checks groups and limits (net.ipv4.igmp_max_memberships): {{said .Err "the log has the reason"}}.`,
		Loss{Why: "A multicast group could not be joined: nothing is received from it."}, Alert{Name: "FanfareGroupFailed", Within: "15m", Severity: critical})
	GroupLost = line(warn, "membership of a group was lost, joining again", "group role err", events.GroupLost, "the first lost group; others at debug level", `Check the interface or the fabric: {{said .Err "the log has the reason"}}. Messages published meanwhile are repaired as far as publishers' windows reach.`,
		Loss{}, Alert{Name: "FanfareGroupLost", Expr: `fanfare_receive_joined == 0 and fanfare_receive_topics > 0`, For: "30s", Severity: critical, Summary: "{{ $labels.instance }} has subscriptions in the group {{ $labels.group }}, but is not a member of it"})
	GroupBack       = line(debug, "membership of a group is restored", "group role", events.GroupBack, each, "")
	GroupsBack      = line(info, "all memberships of groups are restored", "memberships latest", events.GroupBack, "when the last one is restored", "")
	GroupMembership = line(debug, "group membership", "group role state", none, each, "")
	GroupLeft       = line(debug, "left a group: it has no more subscriptions", "group", none, each, "")
	LeaveFailed     = line(warn, "leaving a group failed: its packets may still arrive here", "group err", none, each, "See err.")
	LegDown         = line(warn, "a leg is lost, and another one carries all traffic: repair it before that fails, too", "leg err", events.LegDown, each, `Repair {{or .Leg "that leg"}}: check its interface, its network, and whether the publisher uses it{{because .Err}}.`,
		Loss{Why: "A leg does not carry packets: nothing is lost while another one does, but there is no redundancy."}, Alert{Name: "FanfareLegDown", Expr: `fanfare_leg_up == 0 or fanfare_leg_silent_streams > 0`, For: "30s", Severity: critical, Summary: "Leg {{ $labels.leg }} of {{ $labels.instance }} is down, or does not deliver the packets of another leg"})
	LegsDown  = line(warn, "the last leg is lost: nothing is sent or received until one is back", "leg err", events.LegDown, each, "Repair it, and the others.")
	LegBack   = line(warn, "a leg is restored", "leg after", events.LegBack, each, "")
	LegSilent = line(warn, "packets of a publisher arrive on another leg, but not on this one: check this leg's network (shm://: whether both have the same directory, which containers must share, and free memory), and whether the publisher uses it", publisher+" leg for", events.LegDown, once10s, "Check that leg's network and the publisher. Over `shm://` both need the same directory, which containers must share; otherwise omit that leg here.")
	LegHeard  = line(debug, "packets of a publisher arrive on a leg again", publisher+" leg for", events.LegBack, each, "")
)

// Sealed groups, and open ones.
var (
	GroupsOpen        = line(info, "the groups are open: any host on the network can read, forge and change all messages; keys=FILE in the URL seals them (fanfare key new)", "", none, "first, when the bus is opened", "Seal them if others use the network: docs/security.md.")
	GroupsSealed      = line(info, "the groups are sealed: messages are encrypted with this key", "key", none, "once, when the bus is opened", "")
	NoKeyValid        = line(warn, "the groups are sealed, and no key is valid now: nothing is sent until one is", "", none, "once, when the bus is opened", "fanfare key rotate, and check the clock.")
	PacketsUnreadable = line(warn, "packets cannot be opened, and are refused", "err", events.PacketsUnreadable, "once for each reason and key, until the keys change; for different clocks once a minute; for unknown or untrusted keys 64 times, then once for all others", `{{readable . "Give all buses of these groups the same keyring (keys= in the URL) with a key that is valid now (fanfare key show), a file of trust= with all signing publishers, and correct clocks; or find the program that sends other packets: the log has reason and source."}}`,
		Loss{Why: "Packets that are not sealed or signed as this bus requires were dropped; or it has no valid key itself, and sends nothing."})
	KeyringChanged = line(info, "the keyring has changed", "file keys sending", none, "at each change", "")
	KeyringHole    = line(warn, "the keyring has a period without a valid key, in which nothing can be sent", "from until", none, "for each such time, when the keyring is read", "Add a key that is valid then, or make the previous one end later.")
	KeyringBad     = line(fault, "the keyring cannot be read, and the keys stay unchanged", "err", none, "once for each fault", "Correct the file as described in err.")
)

// The transport, and the system below.
var (
	ReceiveBufferCapped = line(warn, "the system caps the receive buffer, and with it the window that publishers may fill: raise it with sysctl -w net.core.rmem_max=BYTES", "asked_bytes granted_bytes", none, "once, when the bus is opened", "sysctl -w net.core.rmem_max=33554432")
	TransportFailed     = line(fault, "RDMA transport failed", "err", none, once, "See err. The bus has ended: open another.")
	QueuePairInError    = line(warn, "RDMA queue pair is in error and is reset", "err", none, "only if it had worked for 2 s or more before", "")
	QueuePairStalled    = line(warn, "RDMA queue pair makes no progress and is reset", "err", none, "only if it had worked for 2 s or more before", "")
	Unmet               = line(warn, "this bus cannot connect to other buses of its fabric: messages do not pass between them; see err", "err", events.Unmet, "once, until all are connected", `Give {{or .Process "this process"}} more file descriptors (ulimit -n, LimitNOFILE=; each endpoint of a fabric in shared memory needs two for each other one), or use one version in all processes{{because .Err}}.`,
		Loss{Why: "This process cannot connect to other processes of its fabric: messages do not pass between them."}, Alert{Name: "FanfareUnmet", Within: "15m", Severity: critical})
	Unfindable = line(warn, "new processes can no longer discover this bus; existing connections continue: its files in shared memory were removed or replaced; restart this process, and ensure that the files are kept", "err", events.Unfindable, "once a bus", `Restart {{or .Process "this process"}}: {{said .Err "the log names the removed files"}}. systemd removes such files when the user's last session ends (loginctl enable-linger USER, or RemoveIPC=no in logind.conf(5)); or use another directory (dir= in the URL).`,
		Loss{}, Alert{Name: "FanfareUnfindable", Expr: `fanfare_events_total{event="unfindable"} > 0`, Severity: critical, Summary: "New processes cannot discover {{ $labels.instance }}: its files in shared memory were removed"})
	NoInspectSocket   = line(debug, "fanfare top, web, loss and ls cannot see this process: it has no socket", "err", none, "once for each bus that is opened", "")
	InspectDirForeign = line(warn, "fanfare top, web, loss and ls cannot see this process: the directory for its socket belongs to another user", "err", none, "once for each bus that is opened", "Find the owner of that directory and remove it, or set FANFARE_INSPECT to a directory that you own.")
	NoAddressHandle   = line(debug, "no address handle to a sender", "sender err", none, each, "")
	SendOnlyRefused   = line(warn, "a send-only join was refused, but a full one succeeded, most likely because the subnet manager does not support send-only members of multicast groups: publishing as a full member without a queue pair, which has the same effect", "group", none, once, "")
)

// Section has the lines of one subject.
type Section struct {
	Title string
	Lines []*Line
}

// Signed publishers.
var (
	PublishersSigned  = line(info, "messages of this bus are signed", "key", none, "once, when the bus is opened", "")
	PublishersTrusted = line(info, "only messages of trusted publishers are delivered", "keys", none, "once, when the bus is opened", "")
	TopicRefused      = line(warn, "messages of a publisher are refused: its key is not trusted for the topic", "publisher fault topic times group", events.PublisherFault, "once a publisher and topic, until the trust changes", "Add a line for its key to the file of trust=, or find the host that runs it.")
	TrustChanged      = line(info, "the file of trust has changed", "file keys", none, "at each change", "")
	TrustBad          = line(fault, "the file of trust cannot be read, and the trusted keys stay unchanged", "err", none, "once for each fault", "Correct the file as described in err.")
)

// All has all lines.
var All = []Section{
	{"Publishers that this bus receives", []*Line{&PublisherUp, &PublisherEnded, &PublisherLost, &PublisherCutOff, &PublisherBack, &PublisherDown, &PublisherLeft, &PublisherRefused, &PublisherFault, &DuplicateName, &Namesake, &TopicCollision, &PatternCollision, &TooManyTopics, &Mismatch, &MismatchHarmless}},
	{"Packets", []*Line{&PacketsLost, &PacketsDropped, &PacketsMissed, &BadPackets, &RepliesRefused, &DictionaryMissing, &SendFailed, &CannotSend, &SendsAgain, &CannotReply, &RepliesAgain, &WaitFailed}},
	{"Subscribers of this bus's publishers", []*Line{&SubscriberUp, &SubscriberLeft, &SubscriberSilent, &SubscriberCutOff, &SubscriberReleased, &SlowSubscriber, &SubscriberTrails, &PublisherStalled, &StalledBySilence, &StalledByLoss, &PublisherResumed}},
	{"Subscriptions and handlers of this bus", []*Line{&SubscriptionNotRead, &HoldsByReading, &HoldsByHandling, &HoldsByLoss, &ReleasedForReading, &ReleasedForHandling, &ReleasedForLoss, &SubscriptionEvicted, &HandlerSlow, &HandlerBesideSlow, &KeySlow, &HandlerReturned, &HandlerExited, &HandlerBesideExited, &StoodStill, &NoSubscriberHeard, &NoPublisherHeard, &NoLoopback, &StateFailed, &StateSlow, &StateReturned, &SearchFailed, &HelloFailed}},
	{"Groups and legs", []*Line{&JoinFailed, &GroupLost, &GroupBack, &GroupsBack, &GroupMembership, &GroupLeft, &LeaveFailed, &LegDown, &LegsDown, &LegBack, &LegSilent, &LegHeard}},
	{"Sealed groups, and open ones", []*Line{&GroupsOpen, &GroupsSealed, &NoKeyValid, &PacketsUnreadable, &KeyringChanged, &KeyringHole, &KeyringBad}},
	{"Signed publishers", []*Line{&PublishersSigned, &PublishersTrusted, &TopicRefused, &TrustChanged, &TrustBad}},
	{"The transport, and the system below", []*Line{&ReceiveBufferCapped, &TransportFailed, &QueuePairInError, &QueuePairStalled, &Unfindable, &Unmet, &NoInspectSocket, &InspectDirForeign, &NoAddressHandle, &SendOnlyRefused}},
}
