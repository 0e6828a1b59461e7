package report

import "log/slog"

const (
	debug = slog.LevelDebug
	info  = slog.LevelInfo
	warn  = slog.LevelWarn
	fault = slog.LevelError
)

// publisher has the attributes that identify a publisher, subscriber those that identify a subscriber.
const (
	publisher  = "publisher name? epoch group"
	subscriber = "subscriber name address group"
)

// Publishers that this bus receives.
var (
	PublisherUp    = line(info, "publisher up", publisher, "publisher_up", ofPeers, "")
	PublisherEnded = line(info, "publisher ended", publisher, "publisher_ended", ofPeers, "")
	PublisherLost  = line(warn, "publisher lost: it fell silent before its end", publisher, "publisher_lost", ofPeers, "Find out why it died or was disconnected.",
		Loss{Why: "The publisher fell silent before it had sent, or repaired, everything.", Do: `{{if .Err}}Connect {{or .Process "this process"}} again: {{said .Err ""}}.{{else}}Find out why {{or .Publisher "the publisher"}} died or was disconnected: see its log, its host, the network between.{{end}}`},
		Alert{"FanfarePublisherLost", `increase(fanfare_events_total{event="publisher_lost"}[5m]) > 0`, "", warning, "{{ $labels.instance }} lost a publisher: it fell silent before its end", "The log names it. It has died, or it or this host is disconnected."})
	PublisherCutOff = line(warn, "publisher lost: this bus itself was cut off from the group", publisher+" err", "publisher_lost", ofPeers, "See err: an interface of this host that is down.")
	PublisherDown   = line(info, "publisher down", publisher+" cause", "publisher_restarted", ofPeers, "",
		Loss{Why: "The publisher fell silent, and another instance with its name was started.", Do: `Find out why {{or .Publisher "the publisher"}} was not closed: Close waits until subscribers have everything.`})
	PublisherLeft    = line(debug, "publisher no longer received in a group that was left", publisher, "", each, "")
	PublisherRefused = line(warn, "packets of a publisher are refused, because a limit of this bus is reached", "publisher group reason", "publisher_refused", ofPeers, "Raise the limit that reason names: Config.MaxPublishers or Config.ReceiveMemoryBytes.",
		Loss{Why: "Packets of a publisher are refused: there are too many publishers, or no memory for this one.", Do: `Raise Config.MaxPublishers or Config.ReceiveMemoryBytes of {{or .Process "this process"}}, as the error says: {{said .Err "see the log"}}.`})
	PublisherFault = line(warn, "a publisher breaks the protocol: its program is at fault, or an attacker forges its packets", "publisher fault topic times group", "publisher_fault", powers+"; "+ofPeers, "Find the program by its name.",
		Loss{Why: "A publisher breaks the rules of the protocol.", Do: `Find the program of {{or .Publisher "that publisher"}}: {{said .Err "see the log"}}.`},
		Alert{"FanfarePublisherFault", `increase(fanfare_events_total{event="publisher_fault"}[15m]) > 0`, "", critical, "{{ $labels.instance }} receives a publisher that breaks the protocol, or is not trusted with a topic", "The log names it and the fault. Find the faulty program, or the host that forges its packets; or add a line for its key to the file of trust=."})
	DuplicateName = line(warn, "two buses publish under one name: the messages of both are delivered, with separate numbers; give each a different Config.Name", "name publisher epoch address other_epoch other_address", "duplicate_name", "once a pair; "+ofPeers, "See the text (pub -name).",
		Loss{Why: "Two buses publish under one name: the messages of both are delivered, with separate numbers.", Do: `Give each bus a different Config.Name (pub -name): one is {{or .Publisher "in the log"}}{{because .Err}}.`},
		Alert{"FanfareDuplicateName", `increase(fanfare_events_total{event="duplicate_name"}[15m]) > 0`, "", warning, "{{ $labels.instance }} receives two buses that publish under one name", "The log has both addresses. Give each a different Config.Name."})
	Namesake       = line(warn, "another bus publishes under this bus's name: subscribers get the messages of both; if it is not a restart or an update of this one, give each a different Config.Name", "name publisher epoch ours heard", "", powers, "See the text.")
	TopicCollision = line(fault, "a publisher's topic has the same id as a topic that this bus subscribes to: rename one of them", "publisher topic subscribed group", "topic_collision", ofPeers, "See the text.",
		Loss{Why: "Two topics have the same id, and a publisher uses the other one.", Do: `Rename one of the two topics: {{said .Err "the log names them"}}.`},
		Alert{"FanfareTopicCollision", `increase(fanfare_events_total{event="topic_collision"}[15m]) > 0`, "", critical, "{{ $labels.instance }} does not get a topic of a publisher: another topic has the same id", "The log has both names. Rename one of them."})
	PatternCollision = line(fault, "a topic that matches a pattern has the same id as another one: rename one of them", "topic err group", "", ofPeers, "See the text.")
	TooManyTopics    = line(warn, "a group has more topics than patterns can know: patterns do not get the messages of the others, and report gaps", publisher+" known", "", "once a group", "Use more groups (groups= in the URL of all buses), or subscribe to topics by their names.")
	Mismatch         = line(warn, "another bus is configured differently, and messages do not pass between it and this one", "name publisher address version? groups? mapping? checksum? packet_size? legs? do", "config_mismatch", "once a start of the other bus; "+ofPeers, "See do.",
		Loss{Why: "Another bus on the same addresses is configured differently: its messages may not be received.", Do: `Give both the same configuration: {{said .Err "the log has the differences"}}.`},
		Alert{"FanfareConfigMismatch", `increase(fanfare_events_total{event="config_mismatch"}[15m]) > 0`, "", critical, "{{ $labels.instance }} and another bus are configured differently, and messages may not pass between them", "The logs of both have the values and advice."})
	MismatchHarmless = line(info, "another bus is configured differently, which is harmless", "name publisher address version? groups? mapping? checksum? packet_size? legs?", "config_differs", "once a start of the other bus; "+ofPeers, "")
)

// Packets.
var (
	PacketsLost = line(warn, "packets lost permanently", publisher+" first count cause packets_left_out?", "", "8 at once, then one a second", "See the cause in docs/operate/metrics.md.")
	BadPackets  = line(warn, "packets were dropped because their checksum is missing or wrong: the network damages them, or an attacker forges them", "packets publisher address group", "bad_packets", powers+"; "+once10s, "Check cables, network cards and drivers on the path from address; or find the host that forges them (fanfare tap).",
		Loss{Why: "Packets from that host were dropped: they were damaged, or no publisher or subscriber may send them.", Do: `Check cable, network card and driver between {{or .Address "the host that the log names"}} and this host (ethtool -S), and the program there, or find out whether packets are forged (fanfare tap){{because .Err}}.`})
	RepliesRefused    = line(warn, "NAKs or statuses of a subscriber are refused", "packets address reason group", "bad_packets", powers+"; "+once10s, "See reason. Check cables, network cards and drivers on the path, and the program at address, which may forge them (fanfare tap).")
	DictionaryMissing = line(fault, "packets are lost: a publisher compresses them with a dictionary that this bus does not have; give it to this bus, too (Config.Dictionaries, -dict)", "publisher codec dictionary group", "dictionary_missing", once10s, "See the text.",
		Loss{Why: "A publisher compresses with a dictionary that this bus does not have: its messages cannot be read.", Do: `Give {{or .Process "this process"}} the dictionary of {{or .Publisher "the publisher"}} (Config.Dictionaries, sub -dict): {{said .Err "the log names it"}}.`})
	SendFailed = line(fault, "sending failed", "group err times", "", powers+"; once in 10 s", "See err: an interface that is down, a route that is missing.")
	CannotSend = line(warn, "nothing can be sent, and publishers wait when there is no more room, whatever their flow control", "group for waiting_packets err", "cannot_send", doubling+"; once in 10 s", "See err: an interface that is down, a group that cannot be joined again, keys that have expired.",
		Loss{Why: "Nothing could be sent for a while: publishers wait when there is no more room, and subscribers receive nothing.", Do: `Remove the reason why {{or .Process "this process"}} cannot send: {{said .Err "the log has it"}}.`},
		Alert{"FanfareCannotSend", `fanfare_publish_stuck_seconds > 2`, "", critical, "{{ $labels.instance }} cannot send its messages in {{ $labels.group }}", "Its publishers wait when there is no more room. The log says why, such as an interface that is down, or keys that have expired."})
	SendsAgain  = line(info, "sending works again", "group after", "sends_again", "once in 10 s", "")
	CannotReply = line(warn, "NAKs and statuses to a publisher cannot be sent: lost packets are not repaired, and that publisher does not wait for this bus", "address for packets err do", "cannot_reply", doubling+", of each publisher; "+ofPeers, "See do; for example add a route to that address.",
		Loss{Why: "NAKs and statuses to a publisher could not be sent: its lost packets were not repaired, and it did not wait for this bus.", Do: `Make it possible for {{or .Process "this process"}} to send to {{or .Address "that publisher"}}: {{said .Err "the log has the reason"}}.`},
		Alert{"FanfareCannotReply", `increase(fanfare_events_total{event="cannot_reply"}[15m]) > 0`, "", critical, "{{ $labels.instance }} cannot send NAKs and statuses to a publisher: its lost packets are not repaired", "The log has the publisher's address, the reason and advice. Usually a route to that address is missing."})
	RepliesAgain   = line(info, "NAKs and statuses reach a publisher again", "address after", "replies_again", "once for each publisher that was reported; "+ofPeers, "")
	WaitFailed     = line(warn, "waiting for packets failed", "err", "", ofPeers, "See err.")
	PacketsDropped = line(warn, "packets were dropped by this host", "cause packets do", "packets_dropped", powers+", checked every 10 s; "+ofPeers, "See do.")
	PacketsMissed  = line(info, "packets were lost in the network, or are not for this bus", "cause packets do", "packets_dropped", powers+", checked every 10 s; "+ofPeers, "See do.")
)

// Subscribers of this bus's publishers.
var (
	SubscriberUp     = line(info, "subscriber up", subscriber, "subscriber_up", once10s, "")
	SubscriberLeft   = line(info, "subscriber left", subscriber+" behind_packets", "subscriber_left", once10s, "")
	SubscriberSilent = line(warn, "a subscriber fell silent and is not waited for any more", subscriber+" silent_for behind_packets", "subscriber_silent", once10s, "Find out whether it died or is disconnected.",
		Loss{Why: "A subscriber fell silent, and publishers no longer wait for it: it loses what it does not receive.", Do: `{{if .Err}}Connect {{or .Process "this process"}} again: {{said .Err ""}}.{{else}}Find out whether {{or .Subscriber "that subscriber"}} still runs: was it killed, stopped, or disconnected? If only its host did not run for a while, such as a container that had used up its processor time, raise Config.Silence of the publisher (1 s unless set; pub -silence).{{end}}`, OfSubscriber: true},
		Alert{"FanfareSubscriberSilent", `increase(fanfare_events_total{event="subscriber_silent"}[5m]) > 0`, "", warning, "{{ $labels.instance }} no longer waits for a subscriber that fell silent", "It was killed, stopped or disconnected, or this host was disconnected; it loses what it does not receive. The log says which; the log and fanfare loss have its host and process. Check whether it still runs; if only its host did not run for a while, raise Config.Silence of the publisher."})
	SubscriberCutOff   = line(warn, "a subscriber is not waited for any more: this bus itself was cut off from the group", subscriber+" silent_for behind_packets err", "subscriber_silent", once10s, "See err: an interface of this host that is down.")
	SubscriberReleased = line(warn, "a subscriber has blocked the publisher for longer than StallLimit and is released: it will have a gap", subscriber+" for behind_packets", "subscriber_released", once10s, "Make it read faster, or raise Config.StallLimit.",
		Loss{Why: "A subscriber blocked publishers for too long, and they no longer wait for it: it may have gaps.", Do: `Find out why {{or .Subscriber "that subscriber"}} does not read: fanfare loss on its host names the subscription.`, OfSubscriber: true})
	SlowSubscriber = line(warn, "a subscriber has stayed too far behind for too long and is released: the publisher does not wait for it until it is at most half as far behind", subscriber+" for behind_packets", "slow_subscriber", once10s, "Make it read faster, or raise Config.SlowBehind.",
		Loss{Why: "A subscriber was too far behind for too long, and the publisher no longer waits for it.", Do: `Make {{or .Subscriber "that subscriber"}} faster, or raise Config.SlowBehind of this publisher (pub -slow-behind).`, OfSubscriber: true})
	SubscriberTrails = line(warn, "a subscriber does not keep up: it misses more packets than can be repaired in addition to what is published", subscriber+" for received_packets_per_s published_packets_per_s behind_packets", "", doubling+"; "+once10s, "Find out where its packets are lost (fanfare loss there), publish less, or give it a faster link or processor.")
	PublisherStalled = line(warn, "a subscriber blocks the publisher: it is present but does not read", subscriber+" for behind_packets", "publisher_stalled", doubling+"; "+once10s, "Make that subscriber read, or close it. Its own log names the subscription.",
		Alert{"FanfarePublisherStalled", `increase(fanfare_events_total{event="publisher_stalled"}[5m]) > 0`, "", warning, "The publishers of {{ $labels.instance }} were blocked for more than a second", "fanfare_subscriber_holds and the log name the subscriber."})
	StalledBySilence = line(warn, "a subscriber blocks the publisher and does not answer, or this bus is cut off from it", subscriber+" for behind_packets err", "publisher_stalled", doubling+"; "+once10s, "See err. Check whether the subscriber runs, and the network between.")
	PublisherResumed = line(warn, "the publisher is no longer blocked", subscriber+" after", "publisher_resumed", once10s, "")
)

// Subscriptions and handlers of this bus.
var (
	SubscriptionNotRead = line(warn, "a subscription is not read and has no room for more: its publishers wait for it", "topics publisher group for unread_packets", "subscription_not_read", doubling+"; "+once10s, "Read it, close it, or choose another policy (SlowConsumer).")
	HoldsByReading      = line(warn, "this bus blocks a publisher: the subscription of these topics is not read", "publisher group for topics unread_packets", "holds_publishers_up", doubling+"; "+once10s, "As for a subscription that is not read.")
	HoldsByHandling     = line(warn, "this bus blocks a publisher: handlers of these topics take too long", "publisher group for topics unread_packets", "holds_publishers_up", doubling+"; "+once10s, "Make the handlers return sooner.")
	HoldsByLoss         = line(warn, "this bus blocks a publisher: packets do not arrive here, and all that arrived were read", "publisher group for topics unread_packets", "holds_publishers_up", doubling+"; "+once10s, "Find out why they do not reach this host; if only full ones are missing, MTUs differ (fanfare doctor -peer).")
	ReleasedForReading  = line(warn, "a publisher no longer waits for this bus, which blocked it or stayed far behind: the subscription of these topics is not read, and may have a gap", "publisher group for topics unread_packets", "released_by_a_publisher", once10s, "Read faster, or raise Config.StallLimit there.",
		Loss{Why: "A publisher no longer waits for this bus, because this bus blocked it.", Do: `{{if .Idle}}{{notArriving .}}{{else}}Make the reader of {{reader .}} faster, or give it a policy that blocks no publisher (sub -slow latest).{{end}}`},
		Alert{"FanfareLetGo", `increase(fanfare_events_total{event=~"released_by_a_publisher|subscription_evicted"}[5m]) > 0`, "", critical, "A subscription of {{ $labels.instance }} read too slowly and was released: {{ $labels.event }}", "Its publisher no longer waits for it, or it was ended and gets nothing. The log and fanfare loss have its topics. Make its reader faster, or choose another policy (option SlowConsumer)."})
	ReleasedForHandling = line(warn, "a publisher no longer waits for this bus, which blocked it or stayed far behind: handlers of these topics take too long, and may have a gap", "publisher group for topics unread_packets", "released_by_a_publisher", once10s, "Make the handlers return sooner, or raise Config.StallLimit there.")
	ReleasedForLoss     = line(warn, "a publisher no longer waits for this bus, which blocked it or stayed far behind: packets did not arrive here, which may cause a gap", "publisher group for topics unread_packets", "released_by_a_publisher", once10s, "As for packets that do not arrive.")
	SubscriptionEvicted = line(warn, "a subscription reads too slowly and is ended: read it faster, or allow more (MaxBehind)", publisher+" topics for behind_packets allowed_packets", "subscription_evicted", "once a subscription", "See the text.",
		Loss{Why: "A subscription was ended, because it read too slowly: it did not get later messages.", Do: `Make the reader of {{reader .}} faster, allow more (MaxBehind, sub -behind), or choose a policy other than evict; and subscribe again.`})
	HandlerSlow         = line(warn, "a handler takes long, and blocks everything else on this bus: do its work in another goroutine", "handler so_far", "handler_slow", doubling, "See the text.")
	HandlerBesideSlow   = line(warn, "a handler with a separate goroutine takes long, and its subscription waits for it: by its policy unread messages are lost, or replaced by newer ones", "handler so_far", "handler_slow", doubling, "Make it return sooner, unless this is intended.")
	KeySlow             = line(warn, "the key function of Conflate takes long, and its subscription waits for it, as publishers may: make it return", "handler so_far", "handler_slow", doubling, "Make it return sooner: it is called with each message.")
	HandlerReturned     = line(warn, "slow handler returned", "handler after", "handler_returned", "once for each reported handler", "")
	HandlerExited       = line(fault, "a handler has ended the goroutine of the bus (runtime.Goexit), and the bus with it", "handler", "", "once: the bus has ended", "Make it return. FailNow, Fatal and Skip of a test, and require of testify, end the goroutine: use Error or assert. Open another bus.")
	HandlerBesideExited = line(fault, "a handler has ended its separate goroutine (runtime.Goexit), and its subscription with it", "handler", "", "once a subscription", "Make it return, as for the goroutine of the bus. Subscribe again.")
	StoodStill          = line(warn, "this process did not run: it was stopped, or its host gave it no processor time", "for", "stood_still", each, "Find out what stopped it (SIGSTOP, a debugger, a frozen container), or what else uses the processor.",
		Loss{Why: "This process did not run: it read no packets, and repaired no losses of its subscribers.", Do: `Find out what stopped {{or .Process "this process"}} (SIGSTOP, a debugger, a frozen container), or what else uses the processor.`},
		Alert{"FanfareStoodStill", `increase(fanfare_events_total{event="stood_still"}[5m]) > 0`, "", warning, "{{ $labels.instance }} did not run for two seconds or more", "It was stopped (SIGSTOP, a debugger, a frozen container), or its host gave it no processor time. Messages of that time may be lost, and publishers may have stopped waiting for it. fanfare loss has the losses."})
	NoSubscriberHeard = line(info, "no subscriber detected for this bus's topics: if there should be one, check that both are on one network and use the right interface", "topics interface for", "no_subscriber_heard", "once a bus", "Give both the same iface= (for shm:// of two users the same group=) and keys=; try fanfare doctor -peer.")
	NoPublisherHeard  = line(info, "no publisher detected for this bus's subscriptions: if there should be one, check that both are on one network and use the right interface", "topics interface for", "no_publisher_heard", "once a bus", "As for no subscriber.")
	NoLoopback        = line(warn, "the fabric does not return this bus's own packets to it: Loopback has no effect; for udp:// see its option loop, on an adapter let another process subscribe", "group", "", "once a group", "See the text.")
	StateFailed       = line(fault, "the state of a topic could not be made: late joiners start without it", "topic err", "", each, "See err: the program's function failed.")
	StateSlow         = line(warn, "the function that makes a topic's state is slow: late joiners wait for it, also for the state of other topics of the group, and finally start without it: make it return", "topic so_far", "", doubling, "Make it return sooner: keep the state ready, and write it.")
	StateReturned     = line(warn, "slow state function returned", "topic after", "", "once for each reported function", "")
	SearchFailed      = line(debug, "the search for publishers that are configured differently failed", "group? err", "", each, "")
	HelloFailed       = line(warn, "no hello can be sent: buses that are configured differently will not be reported", "group err", "", "once a minute", "See err.")
)

// Groups and legs.
var (
	JoinFailed = line(fault, "joining a group failed", "group role err", "group_failed", "4 at once, then one a second", "See err: a wrong interface, an interface without multicast, or a fabric that does not permit this host.",
		Loss{Why: "A multicast group could not be joined: nothing is received from it.", Do: `fanfare doctor checks groups and limits (net.ipv4.igmp_max_memberships): {{said .Err "the log has the reason"}}.`},
		Alert{"FanfareGroupFailed", `increase(fanfare_events_total{event="group_failed"}[15m]) > 0`, "", critical, "{{ $labels.instance }} cannot join a group: its subscriptions there have ended", "The log has the group and the reason: a wrong interface, one without multicast, a limit (net.ipv4.igmp_max_memberships), or a fabric that does not permit this host; fanfare doctor checks these."})
	GroupLost = line(warn, "membership of a group was lost, joining again", "group role err", "group_lost", "the first lost group; others at debug level", "Check the interface or the fabric.",
		Loss{Why: "The interface or the fabric lost a multicast group; the bus joins it again.", Do: `Check the interface: {{said .Err "the log has the reason"}}. Messages published meanwhile are repaired as far as publishers' windows reach.`},
		Alert{"FanfareGroupLost", `fanfare_receive_joined == 0 and fanfare_receive_topics > 0`, "30s", critical, "{{ $labels.instance }} has subscriptions in the group {{ $labels.group }}, but is not a member of it", "The interface or the fabric has lost the membership, or does not permit it. The log has the reason."})
	GroupBack       = line(debug, "membership of a group is restored", "group role", "group_back", each, "")
	GroupsBack      = line(info, "all memberships of groups are restored", "memberships latest", "group_back", "when the last one is restored", "")
	GroupMembership = line(debug, "group membership", "group role state", "", each, "")
	GroupLeft       = line(debug, "left a group: it has no more subscriptions", "group", "", each, "")
	LeaveFailed     = line(warn, "leaving a group failed: its packets may still arrive here", "group err", "", each, "See err.")
	LegDown         = line(warn, "a leg is lost, and the others carry all traffic: repair it before another fails", "leg err", "leg_down", each, "See the text.",
		Loss{Why: "A leg does not carry packets: nothing is lost while another one does, but there is no redundancy.", Do: `Repair {{or .Leg "that leg"}} before another fails: check its interface, its network, and whether the publisher uses it{{because .Err}}.`},
		Alert{"FanfareLegDown", `fanfare_leg_up == 0 or fanfare_leg_silent_streams > 0`, "30s", critical, "Leg {{ $labels.leg }} of {{ $labels.instance }} is down, or does not deliver the packets of another leg", "Nothing is lost yet, but there is no redundancy. The log has the URL of the leg and the reason."})
	LegsDown  = line(warn, "the last leg is lost: nothing is sent or received until one is back", "leg err", "leg_down", each, "Repair it, and the others.")
	LegBack   = line(info, "a leg is restored", "leg after", "leg_back", each, "")
	LegSilent = line(warn, "packets of a publisher arrive on another leg, but not on this one: check this leg's network (shm://: whether both have the same directory, which containers must share, and free memory), and whether the publisher uses it", publisher+" leg for", "leg_down", once10s, "Check that leg's network and the publisher. Over `shm://` both need the same directory, which containers must share; otherwise omit that leg here.")
	LegHeard  = line(debug, "packets of a publisher arrive on a leg again", publisher+" leg for", "leg_back", each, "")
)

// Sealed groups, and open ones.
var (
	GroupsOpen        = line(info, "the groups are open: any host on the network can read, forge and change all messages; keys=FILE in the URL seals them (fanfare key new)", "", "", "first, when the bus is opened", "Seal them if others use the network: docs/security.md.")
	GroupsSealed      = line(info, "the groups are sealed", "key", "", "once, when the bus is opened", "")
	NoKeyValid        = line(warn, "the groups are sealed, and no key is valid now: nothing is sent until one is", "", "", "once, when the bus is opened", "fanfare key rotate, and check the clock.")
	PacketsUnreadable = line(warn, "packets cannot be opened, and are refused", "err", "packets_unreadable", "once for each reason and key, until the keys change; for different clocks once a minute; for unknown or untrusted keys 64 times, then once for all others", "See err: a bus without the keyring or with another one, different clocks, or forged packets.",
		Loss{Why: "Packets that are not sealed or signed as this bus requires were dropped; or it has no valid key itself, and sends nothing.", Do: "{{readable .}}"})
	KeyringChanged = line(info, "the keyring has changed", "file keys sending", "", "at each change", "")
	KeyringHole    = line(warn, "the keyring has a period without a valid key, in which nothing can be sent", "from until", "", "for each such time, when the keyring is read", "Add a key that is valid then, or make the previous one end later.")
	KeyringBad     = line(fault, "the keyring cannot be read, and the keys stay unchanged", "err", "", "once for each fault", "Correct the file as described in err.")
)

// The transport, and the system below.
var (
	ReceiveBufferCapped = line(warn, "the system caps the receive buffer, and with it the window that publishers may fill: raise it with sysctl -w net.core.rmem_max=BYTES", "asked_bytes granted_bytes", "", "once, when the bus is opened", "sysctl -w net.core.rmem_max=33554432")
	TransportFailed     = line(fault, "RDMA transport failed", "err", "", once, "See err. The bus has ended: open another.")
	QueuePairInError    = line(warn, "RDMA queue pair is in error and is reset", "err", "", "if it had worked for a while", "")
	QueuePairStalled    = line(warn, "RDMA queue pair makes no progress and is reset", "err", "", "if it had worked for a while", "")
	Unmet               = line(warn, "this bus cannot connect to other buses of its fabric: messages do not pass between them; see err", "err", "unmet", "once, until all are connected", "Raise the limit of file descriptors (ulimit -n, LimitNOFILE=): each endpoint of a fabric in shared memory needs two for each other one; or use one version in all processes.",
		Loss{Why: "This process cannot connect to other processes of its fabric: messages do not pass between them.", Do: `Give {{or .Process "this process"}} more file descriptors (ulimit -n), or use one version in all processes{{because .Err}}.`},
		Alert{"FanfareUnmet", `increase(fanfare_events_total{event="unmet"}[15m]) > 0`, "", critical, "{{ $labels.instance }} cannot connect to other processes of its fabric in shared memory: messages do not pass between them", "The log has their number and the reason. Usually it has no free file descriptors (ulimit -n, LimitNOFILE=); otherwise use one version in all processes."})
	Unfindable = line(warn, "new processes can no longer discover this bus; existing connections continue: its files in shared memory were removed or replaced; restart this process, and ensure that the files are kept", "err", "unfindable", "once a bus", "Restart this process. systemd removes them when the user's last session ends (loginctl enable-linger USER, or RemoveIPC=no in logind.conf(5)); or use another directory (dir= in the URL).",
		Loss{Why: "New processes can no longer discover this one, because its files in shared memory were removed: messages do not pass between them.", Do: `Restart {{or .Process "this process"}}: {{said .Err "the log names the removed files, and how to keep them"}}.`},
		Alert{"FanfareUnfindable", `fanfare_events_total{event="unfindable"} > 0`, "", critical, "New processes cannot discover {{ $labels.instance }}: its files in shared memory were removed", "Restart it. The log names the files, and how to keep them."})
	NoInspectSocket   = line(debug, "fanfare top, web, loss and ls cannot see this process: it has no socket", "err", "", "once for each bus that is opened", "")
	InspectDirForeign = line(warn, "fanfare top, web, loss and ls cannot see this process: the directory for its socket belongs to another user", "err", "", "once for each bus that is opened", "Find the owner of that directory and remove it, or set FANFARE_INSPECT to a directory that you own.")
	NoAddressHandle   = line(debug, "no address handle to a sender", "sender err", "", each, "")
	SendOnlyRefused   = line(warn, "a send-only join was refused, but a full one succeeded, most likely because the subnet manager does not support send-only members of multicast groups: publishing as a full member without a queue pair, which has the same effect", "group", "", once, "")
)

// Section is a group of lines about one subject.
type Section struct {
	Title string
	Lines []*Line
}

// Signed publishers.
var (
	PublishersSigned  = line(info, "messages of this bus are signed", "key", "", "once, when the bus is opened", "")
	PublishersTrusted = line(info, "only messages of trusted publishers are delivered", "keys", "", "once, when the bus is opened", "")
	TopicRefused      = line(warn, "messages of a publisher are refused: its key is not trusted for the topic", "publisher fault topic times group", "publisher_fault", "once a publisher and topic, until the trust changes", "Add a line for its key to the file of trust=, or find the host that runs it.")
	TrustChanged      = line(info, "the file of trust has changed", "file keys", "", "at each change", "")
	TrustBad          = line(fault, "the file of trust cannot be read, and the trusted keys stay unchanged", "err", "", "once for each fault", "Correct the file as described in err.")
)

// All has all lines.
var All = []Section{
	{"Publishers that this bus receives", []*Line{&PublisherUp, &PublisherEnded, &PublisherLost, &PublisherCutOff, &PublisherDown, &PublisherLeft, &PublisherRefused, &PublisherFault, &DuplicateName, &Namesake, &TopicCollision, &PatternCollision, &TooManyTopics, &Mismatch, &MismatchHarmless}},
	{"Packets", []*Line{&PacketsLost, &PacketsDropped, &PacketsMissed, &BadPackets, &RepliesRefused, &DictionaryMissing, &SendFailed, &CannotSend, &SendsAgain, &CannotReply, &RepliesAgain, &WaitFailed}},
	{"Subscribers of this bus's publishers", []*Line{&SubscriberUp, &SubscriberLeft, &SubscriberSilent, &SubscriberCutOff, &SubscriberReleased, &SlowSubscriber, &SubscriberTrails, &PublisherStalled, &StalledBySilence, &PublisherResumed}},
	{"Subscriptions and handlers of this bus", []*Line{&SubscriptionNotRead, &HoldsByReading, &HoldsByHandling, &HoldsByLoss, &ReleasedForReading, &ReleasedForHandling, &ReleasedForLoss, &SubscriptionEvicted, &HandlerSlow, &HandlerBesideSlow, &KeySlow, &HandlerReturned, &HandlerExited, &HandlerBesideExited, &StoodStill, &NoSubscriberHeard, &NoPublisherHeard, &NoLoopback, &StateFailed, &StateSlow, &StateReturned, &SearchFailed, &HelloFailed}},
	{"Groups and legs", []*Line{&JoinFailed, &GroupLost, &GroupBack, &GroupsBack, &GroupMembership, &GroupLeft, &LeaveFailed, &LegDown, &LegsDown, &LegBack, &LegSilent, &LegHeard}},
	{"Sealed groups, and open ones", []*Line{&GroupsOpen, &GroupsSealed, &NoKeyValid, &PacketsUnreadable, &KeyringChanged, &KeyringHole, &KeyringBad}},
	{"Signed publishers", []*Line{&PublishersSigned, &PublishersTrusted, &TopicRefused, &TrustChanged, &TrustBad}},
	{"The transport, and the system below", []*Line{&ReceiveBufferCapped, &TransportFailed, &QueuePairInError, &QueuePairStalled, &Unfindable, &Unmet, &NoInspectSocket, &InspectDirForeign, &NoAddressHandle, &SendOnlyRefused}},
}
