package metrics

import (
	"math"

	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// The tables of metrics. TestEveryCounter checks that every counter of the statistics is in them.

var busMetrics = []metric[stats.Bus]{
	counter("transport_sent_packets", "Packets handed to the fabric.", func(s *stats.Bus) float64 { return float64(s.Transport.PacketsSent) }),
	counter("transport_sent_bytes", "Bytes of packets handed to the fabric.", func(s *stats.Bus) float64 { return float64(s.Transport.BytesSent) }),
	counter("transport_send_calls", "System calls or doorbells that sent packets.", func(s *stats.Bus) float64 { return float64(s.Transport.SendCalls) }),
	counter("transport_send_busy", "Sends and replies that found the send queue full.", func(s *stats.Bus) float64 { return float64(s.Transport.SendBusy) }),
	counter("transport_send_error_packets", "Packets lost to an error of sending.", func(s *stats.Bus) float64 { return float64(s.Transport.SendErrors) }),
	counter("transport_send_no_memory_packets", "Packets lost for a receiver each, because there was no memory for them here. Over shm://.", func(s *stats.Bus) float64 { return float64(s.Transport.SendNoMemory) }),
	counter("transport_received_packets", "Packets received from the fabric.", func(s *stats.Bus) float64 { return float64(s.Transport.PacketsReceived) }),
	counter("transport_received_bytes", "Bytes of packets received from the fabric.", func(s *stats.Bus) float64 { return float64(s.Transport.BytesReceived) }),
	counter("transport_receive_calls", "System calls or polls that received packets.", func(s *stats.Bus) float64 { return float64(s.Transport.ReceiveCalls) }),
	counter("transport_receive_overflow_packets", "Packets dropped on this host because its receive buffer was full.", func(s *stats.Bus) float64 { return float64(s.Transport.ReceiveOverflow) }),
	counter("transport_receive_truncated_packets", "Packets dropped because they are larger than a receive buffer.", func(s *stats.Bus) float64 { return float64(s.Transport.ReceiveTruncated) }),
	counter("transport_receive_errors", "Errors of receiving. Over shm:// also peers not met because descriptors or memory were used up, and implausible ones.", func(s *stats.Bus) float64 { return float64(s.Transport.ReceiveErrors) }),
	counter("transport_lend_refused", "Polls cut short because too many received packets were kept.", func(s *stats.Bus) float64 { return float64(s.Transport.LendRefused) }),
	counter("transport_peers_refused", "Peers refused beyond the limit on peers.", func(s *stats.Bus) float64 { return float64(s.Transport.PeersRefused) }),
	counter("transport_gso_refused", "Sends that the network card refused as GSO trains.", func(s *stats.Bus) float64 { return float64(s.Transport.GSORefused) }),
	counter("transport_joins", "Multicast groups joined.", func(s *stats.Bus) float64 { return float64(s.Transport.Joins) }),
	counter("transport_join_failures", "Multicast groups that could not be joined.", func(s *stats.Bus) float64 { return float64(s.Transport.JoinsFailed) }),
	counter("transport_memberships_lost", "Memberships of multicast groups that the fabric took away.", func(s *stats.Bus) float64 { return float64(s.Transport.MembershipsLost) }),
	counter("transport_send_only_refused", "Send-only joins that the fabric refused and that became full ones.", func(s *stats.Bus) float64 { return float64(s.Transport.SendOnlyRefused) }),
	counter("transport_pkey_violations_packets", "Packets of other partitions that the port dropped.", func(s *stats.Bus) float64 { return float64(s.Transport.PKeyViolations) }),
	counter("transport_qkey_violations_packets", "Packets with another Q_Key that were dropped.", func(s *stats.Bus) float64 { return float64(s.Transport.QKeyViolations) }),
	counter("transport_unclaimed_packets", "Packets that reached the port and no queue pair took.", func(s *stats.Bus) float64 { return float64(s.Transport.Unclaimed) }),
	counter("transport_receive_queue_empty_packets", "Packets that found no receive posted, as far as the adapter counts them.", func(s *stats.Bus) float64 { return float64(s.Transport.ReceiveQueueEmpty) }),
	counter("transport_receive_queue_full", "Times that the receive queue was used up, where the adapter does not count the packets that arrived then.", func(s *stats.Bus) float64 { return float64(s.Transport.ReceiveQueueFull) }),
	counter("lost_to_receive_queue_packets", "Packets that were missing after the receive queue was used up, where the adapter does not count them.", func(s *stats.Bus) float64 { return float64(s.LostToQueue) }),
	counter("transport_delayed_on_purpose_packets", "Packets that were held back by Config.Faults.", func(s *stats.Bus) float64 { return float64(s.Transport.InjectedDelay) }),
	counter("transport_damaged_packets", "Packets dropped because of a wrong checksum, or no packets of the fabric.", func(s *stats.Bus) float64 { return float64(s.Transport.Damaged) }),
	counter("foreign_replies", "Unicast packets that were for no stream of this bus.", func(s *stats.Bus) float64 { return float64(s.ForeignReplies) }),
	counter("replies_failed", "NAKs and statuses that could not be sent.", func(s *stats.Bus) float64 { return float64(s.RepliesFailed) }),
	counter("slow_consumer_packets", "Packets skipped by subscriptions that read too slowly.", func(s *stats.Bus) float64 { return float64(s.SlowConsumerPackets) }),
	counter("replaced_messages", "Messages that newer ones of their keys replaced before they were read.", func(s *stats.Bus) float64 { return float64(s.ReplacedMessages) }),
	counter("seal_open_packets", "Packets refused because they are not sealed.", func(s *stats.Bus) float64 { return float64(s.Seal.Open) }),
	counter("seal_unknown_key_packets", "Packets refused because their key is not in the keyring, or not valid.", func(s *stats.Bus) float64 { return float64(s.Seal.UnknownKey) }),
	counter("seal_forged_packets", "Packets refused because they do not verify.", func(s *stats.Bus) float64 { return float64(s.Seal.Forged) }),
	counter("seal_replayed_packets", "Packets refused because they arrived before, or too late to know.", func(s *stats.Bus) float64 { return float64(s.Seal.Replayed) }),
	counter("seal_stale_packets", "Packets refused because the time that they state is too far from this host's.", func(s *stats.Bus) float64 { return float64(s.Seal.Stale) }),
	counter("seal_deferred_packets", "Packets of unknown senders refused because too many arrived at once.", func(s *stats.Bus) float64 { return float64(s.Seal.Deferred) }),
	counter("seal_foreign_packets", "Packets refused by a sealed bus that are none of Fanfare's.", func(s *stats.Bus) float64 { return float64(s.Seal.Foreign) }),
	counter("seal_version_packets", "Packets refused because they are sealed by another version.", func(s *stats.Bus) float64 { return float64(s.Seal.Version) }),
	counter("seal_unsealed_packets", "Packets that were not sent because no key is valid.", func(s *stats.Bus) float64 { return float64(s.Seal.Unsealed) }),
	gauge("seal_senders", "Remembered senders of packets that verified.", func(s *stats.Bus) float64 { return float64(s.Seal.Senders) }),
	counter("sign_unsigned_packets", "Packets refused because they are not signed.", func(s *stats.Bus) float64 { return float64(s.Sign.Unsigned) }),
	counter("sign_malformed_packets", "Packets refused because they are signed in an unknown format.", func(s *stats.Bus) float64 { return float64(s.Sign.Malformed) }),
	counter("sign_untrusted_packets", "Packets refused because their signing key is not trusted.", func(s *stats.Bus) float64 { return float64(s.Sign.Untrusted) }),
	counter("sign_stale_packets", "Packets refused because of the time at which they were signed.", func(s *stats.Bus) float64 { return float64(s.Sign.Stale) }),
	counter("sign_replayed_packets", "Packets refused: received before, or of a train too old to know.", func(s *stats.Bus) float64 { return float64(s.Sign.Replayed) }),
	counter("sign_forged_packets", "Packets refused because they are not signed by the key that they name.", func(s *stats.Bus) float64 { return float64(s.Sign.Forged) }),
	counter("sign_deferred_packets", "Packets refused because too many that do not verify arrived at once.", func(s *stats.Bus) float64 { return float64(s.Sign.Deferred) }),
	gauge("sign_streams", "Remembered streams with signatures that verified.", func(s *stats.Bus) float64 { return float64(s.Sign.Streams) }),
	counter("refused_messages", "Messages on topics for which their publishers are not trusted, by each subscription that wants them.", func(s *stats.Bus) float64 { return float64(s.RefusedMessages) }),
	counter("repairs_timed", "Gaps that were repaired, and their time taken.", func(s *stats.Bus) float64 { return float64(s.Repair.Count) }),
	gauge("repair_p50_seconds", "Median time from a gap becoming visible to its repair, since the start.", func(s *stats.Bus) float64 { return s.Repair.P50.Seconds() }),
	gauge("repair_p90_seconds", "90th percentile of the time from a gap becoming visible to its repair, since the start.", func(s *stats.Bus) float64 { return s.Repair.P90.Seconds() }),
	gauge("repair_p99_seconds", "99th percentile of the time from a gap becoming visible to its repair, since the start.", func(s *stats.Bus) float64 { return s.Repair.P99.Seconds() }),
	gauge("repair_max_seconds", "Longest time from a gap becoming visible to its repair, since the start.", func(s *stats.Bus) float64 { return s.Repair.Max.Seconds() }),
}

var publisherMetrics = []metric[stats.Publisher]{
	counter("publisher_packets", "Packets of a publisher, in all groups: delivered to subscriptions, or given up.", func(s *stats.Publisher) float64 { return float64(s.Packets) }, "publisher"),
	counter("publisher_repaired_packets", "Packets of a publisher that had been missing and arrived as repairs.", func(s *stats.Publisher) float64 { return float64(s.Repaired) }, "publisher"),
	counter("publisher_lost_packets", "Packets of a publisher permanently lost.", func(s *stats.Publisher) float64 { return float64(s.Lost) }, "publisher"),
	gauge("publisher_missing_packets", "Packets of a publisher that are missing just now.", func(s *stats.Publisher) float64 { return float64(s.Missing) }, "publisher").combining(added),
}

var subscriberMetrics = []metric[stats.Subscriber]{
	gauge("subscriber_behind_packets", "Packets that a subscriber of this bus's publishers misses or has not read: the maximum of all groups.", func(s *stats.Subscriber) float64 { return float64(s.Behind) }, "subscriber"),
	gauge("subscriber_silent_seconds", "Time since the last status of a subscriber: the longest of all groups.", func(s *stats.Subscriber) float64 { return s.LastHeard.Seconds() }, "subscriber"),
	gauge("subscriber_holds", "Whether a subscriber holds this bus's publishers up: 1 or 0.", func(s *stats.Subscriber) float64 { return boolean(s.Holds) }, "subscriber"),
	gauge("subscriber_released", "Whether a subscriber is not waited for, because it blocked publishers for too long and has not caught up: 1 or 0.", func(s *stats.Subscriber) float64 { return boolean(s.Released) }, "subscriber"),
}

var lossMetrics = []metric[stats.Loss]{
	counter("gaps", "Gaps delivered to subscriptions in place of permanently lost messages, by cause.", func(s *stats.Loss) float64 { return float64(s.Gaps) }, "cause"),
	counter("gap_messages", "Messages permanently lost in gaps of known size, by cause.", func(s *stats.Loss) float64 { return float64(s.Messages) }, "cause"),
}

var dropMetric = counter("dropped_packets", "Packets dropped here, or lost on the way here, by cause, whether they were repaired afterwards or not.", func(n *uint64) float64 { return float64(*n) }, "cause")

var lostMetric = counter("lost_packets", "Packets permanently lost, by cause.", func(n *uint64) float64 { return float64(*n) }, "cause")

var eventMetric = counter("events", "Events of each kind: events.Kind, with underscores.", func(e *events.Count) float64 { return float64(e.Count) }, "event")

var legMetrics = []metric[stats.Leg]{
	counter("leg_packets", "Data packets that the leg brought, first transmissions.", func(s *stats.Leg) float64 { return float64(s.Packets) }, "leg"),
	counter("leg_copies", "Of leg_packets, those that another leg had brought before.", func(s *stats.Leg) float64 { return float64(s.Copies) }, "leg"),
	counter("leg_lost_packets", "Packets that the leg did not bring though it brought newer ones.", func(s *stats.Leg) float64 { return float64(s.Lost) }, "leg"),
	counter("leg_filled_packets", "Of leg_lost_packets, those that another leg brought.", func(s *stats.Leg) float64 { return float64(s.Filled) }, "leg"),
	counter("leg_late_packets", "Of leg_packets, those that arrived after newer ones.", func(s *stats.Leg) float64 { return float64(s.Late) }, "leg"),
	counter("leg_duplicate_packets", "Packets that the leg brought once more.", func(s *stats.Leg) float64 { return float64(s.Duplicates) }, "leg"),
	counter("leg_repair_packets", "Packets that the leg brought as repairs.", func(s *stats.Leg) float64 { return float64(s.Repairs) }, "leg"),
	counter("leg_unsent_packets", "Packets that went out on other legs while this one took none.", func(s *stats.Leg) float64 { return float64(s.Unsent) }, "leg"),
	counter("leg_falls", "Times that a stream fell silent on the leg while another brought it.", func(s *stats.Leg) float64 { return float64(s.Falls) }, "leg"),
	gauge("leg_silent_streams", "Streams that do not arrive on the leg at present, while another brings them.", func(s *stats.Leg) float64 { return float64(s.Silent) }, "leg"),
	gauge("leg_up", "Whether the fabric has all groups of the leg joined and takes what is sent: 1 or 0.", func(s *stats.Leg) float64 { return boolean(s.Up) }, "leg"),
	gauge("leg_skew_seconds", "How far the leg is behind the fastest, smoothed.", func(s *stats.Leg) float64 { return s.Skew.Seconds() }, "leg"),
}

var groupMetrics = []metric[stats.Group]{
	counter("receive_packets", "Data packets received for the first time.", func(s *stats.Group) float64 { return float64(s.Packets) }, "group"),
	counter("receive_bytes", "Bytes of data packets received for the first time.", func(s *stats.Group) float64 { return float64(s.Bytes) }, "group"),
	counter("receive_repaired_packets", "Packets that had been missing and arrived as repairs.", func(s *stats.Group) float64 { return float64(s.Repaired) }, "group"),
	counter("receive_late_packets", "Packets that had been missing and arrived late by themselves.", func(s *stats.Group) float64 { return float64(s.Late) }, "group"),
	counter("receive_history_packets", "Packets that were sent before this subscriber joined, and fetched (From).", func(s *stats.Group) float64 { return float64(s.History) }, "group"),
	counter("receive_state_joins", "Streams that began with state (From).", func(s *stats.Group) float64 { return float64(s.StateJoins) }, "group"),
	counter("receive_state_failed", "Streams that were to begin with state, and began without.", func(s *stats.Group) float64 { return float64(s.StateFailed) }, "group"),
	counter("receive_duplicate_packets", "Data packets that had arrived before.", func(s *stats.Group) float64 { return float64(s.Duplicates) }, "group"),
	counter("receive_overrun_packets", "Data packets dropped, because the receive window had no room for them.", func(s *stats.Group) float64 { return float64(s.Overrun) }, "group"),
	counter("receive_unstarted_packets", "Repairs of streams not started, or from before their start.", func(s *stats.Group) float64 { return float64(s.Unstarted) }, "group"),
	counter("receive_lost_packets", "Packets permanently lost.", func(s *stats.Group) float64 { return float64(s.Lost) }, "group"),
	counter("receive_compressed_packets", "Packets that were compressed.", func(s *stats.Group) float64 { return float64(s.Packed) }, "group"),
	counter("receive_compressed_bytes", "Bytes on the wire of packets that were compressed.", func(s *stats.Group) float64 { return float64(s.PackedBytes) }, "group"),
	counter("receive_uncompressed_bytes", "Bytes without compression of packets that were compressed.", func(s *stats.Group) float64 { return float64(s.UnpackedBytes) }, "group"),
	counter("receive_unreadable_packets", "Packets that cannot be read here: their dictionary, codec, kind of run or packet size is not known.", func(s *stats.Group) float64 { return float64(s.Unreadable) }, "group"),
	counter("receive_missing_packets", "Packets found missing, repaired later or not.", func(s *stats.Group) float64 { return float64(s.Missing) }, "group"),
	counter("receive_naks", "NAK packets sent.", func(s *stats.Group) float64 { return float64(s.NAKs) }, "group"),
	counter("receive_nak_packets", "Packets asked for in NAKs.", func(s *stats.Group) float64 { return float64(s.NAKPackets) }, "group"),
	counter("receive_ncfs", "NAK confirmations received.", func(s *stats.Group) float64 { return float64(s.NCFs) }, "group"),
	counter("receive_statuses", "Status packets sent.", func(s *stats.Group) float64 { return float64(s.Statuses) }, "group"),
	counter("receive_heartbeats", "Heartbeats received.", func(s *stats.Group) float64 { return float64(s.Heartbeats) }, "group"),
	counter("receive_streams_started", "Streams of publishers started.", func(s *stats.Group) float64 { return float64(s.Receiver.Streams) }, "group"),
	counter("receive_streams_ended", "Streams that ended in order.", func(s *stats.Group) float64 { return float64(s.StreamsEnded) }, "group"),
	counter("receive_streams_lost", "Streams lost because their publisher fell silent.", func(s *stats.Group) float64 { return float64(s.StreamsLost) }, "group"),
	counter("receive_streams_refused_packets", "Packets of streams beyond the limit on publishers, or without memory.", func(s *stats.Group) float64 { return float64(s.StreamsRefused) }, "group"),
	counter("receive_restarts", "Publishers that fell silent while another instance of their name was received.", func(s *stats.Group) float64 { return float64(s.Restarts) }, "group"),
	counter("receive_clocks_apart_packets", "Deliveries not in fanfare_delivery_latency_seconds: by clocks that were to agree their time was below zero, or above an hour.", func(s *stats.Group) float64 { return float64(s.ClocksApart) }, "group"),
	counter("receive_collisions", "Topics that a publisher has by another name of the same id.", func(s *stats.Group) float64 { return float64(s.Collisions) }, "group"),
	counter("receive_replies", "Replies to requests sent.", func(s *stats.Group) float64 { return float64(s.Replies) }, "group"),
	counter("receive_reply_packets", "Packets of replies sent, repeated ones included.", func(s *stats.Group) float64 { return float64(s.ReplyPackets) }, "group"),
	counter("receive_replies_recalled", "Replies, or pieces of them, that a publisher asked for again.", func(s *stats.Group) float64 { return float64(s.RepliesRecalled) }, "group"),
	counter("receive_replies_unknown", "Replies that a publisher asked for, and that were not made yet, or are forgotten.", func(s *stats.Group) float64 { return float64(s.RepliesUnknown) }, "group"),
	counter("receive_replies_dropped", "Replies forgotten before their time, for lack of memory.", func(s *stats.Group) float64 { return float64(s.RepliesDropped) }, "group"),
	counter("receive_names_refused", "Names that are no topic's, or not its own, or beyond what is kept.", func(s *stats.Group) float64 { return float64(s.NamesRefused) }, "group"),
	counter("receive_namesakes", "Streams of other buses with the name of this one.", func(s *stats.Group) float64 { return float64(s.Namesakes) }, "group"),
	counter("receive_own_packets", "Packets of this bus itself.", func(s *stats.Group) float64 { return float64(s.Own) }, "group"),
	counter("receive_stale_packets", "Packets of streams that have ended, and control packets of unknown ones.", func(s *stats.Group) float64 { return float64(s.Stale) }, "group"),
	counter("receive_sealed_packets", "Packets that are sealed, which a bus without keys cannot open.", func(s *stats.Group) float64 { return float64(s.Sealed) }, "group"),
	counter("receive_foreign_packets", "Packets that are not Fanfare's, of another group, or of no use to a subscriber.", func(s *stats.Group) float64 { return float64(s.Foreign) }, "group"),
	counter("receive_version_packets", "Packets of other versions of the protocol, or with unsupported features.", func(s *stats.Group) float64 { return float64(s.Version) }, "group"),
	counter("receive_malformed_packets", "Packets that do not parse.", func(s *stats.Group) float64 { return float64(s.Malformed) }, "group"),
	counter("receive_damaged_packets", "Packets with a wrong checksum, or without one.", func(s *stats.Group) float64 { return float64(s.Damaged) }, "group"),
	counter("receive_far_ahead_packets", "Of the implausible packets: the first heartbeat that names a sequence far ahead, as one after an outage does.", func(s *stats.Group) float64 { return float64(s.FarAhead) }, "group"),
	counter("receive_implausible_packets", "Packets with impossible sequences, or that no other packet confirms yet.", func(s *stats.Group) float64 { return float64(s.Implausible) }, "group"),
	counter("receive_unwanted_runs", "Runs of messages in packets, of topics that are not subscribed to.", func(s *stats.Group) float64 { return float64(s.UnwantedRuns) }, "group"),
	counter("receive_unwanted_bytes", "Bytes of runs of topics that are not subscribed to.", func(s *stats.Group) float64 { return float64(s.UnwantedBytes) }, "group"),
	counter("receive_dropped_runs", "Runs of messages in packets that were dropped because they do not parse or their numbers came before, by each subscription that is read, and once for all handlers.", func(s *stats.Group) float64 { return float64(s.DroppedRuns) }, "group"),
	gauge("receive_joined", "Whether the group is joined, or has no subscriptions: 1 or 0.", func(s *stats.Group) float64 { return boolean(s.Joined || s.Topics == 0) }, "group").combining(math.Min),
	gauge("receive_streams", "Streams of publishers at present.", func(s *stats.Group) float64 { return float64(s.Streams) }, "group").combining(added),
	gauge("receive_topics", "Topics subscribed to in the group at present.", func(s *stats.Group) float64 { return float64(s.Topics) }, "group").combining(added),
	gauge("receive_window_bytes", "Memory of all receive windows of the group.", func(s *stats.Group) float64 { return float64(s.Windows) }, "group").combining(added),
}

var publicationMetrics = []metric[stats.Publication]{
	counter("publish_messages", "Messages published.", func(s *stats.Publication) float64 { return float64(s.MessagesSent) }, "group"),
	counter("publish_packets", "Data packets sent for the first time.", func(s *stats.Publication) float64 { return float64(s.PacketsSent) }, "group"),
	counter("publish_bytes", "Bytes of data packets sent for the first time.", func(s *stats.Publication) float64 { return float64(s.BytesSent) }, "group"),
	counter("publish_compressed_packets", "Data packets sent for the first time that are compressed.", func(s *stats.Publication) float64 { return float64(s.PacketsPacked) }, "group"),
	counter("publish_uncompressed_bytes", "What publish_bytes would be without compression; 0 where nothing is compressed.", func(s *stats.Publication) float64 { return float64(s.BytesUnpacked) }, "group"),
	counter("publish_repair_packets", "Packets sent as repairs.", func(s *stats.Publication) float64 { return float64(s.RepairsSent) }, "group"),
	counter("publish_heartbeats", "Heartbeats sent.", func(s *stats.Publication) float64 { return float64(s.HeartbeatsSent) }, "group"),
	counter("publish_index_rounds", "Index rounds sent: answers to receivers that lost packets or joined late.", func(s *stats.Publication) float64 { return float64(s.IndexRounds) }, "group"),
	counter("publish_ncfs", "NAK confirmations sent.", func(s *stats.Publication) float64 { return float64(s.NCFSent) }, "group"),
	counter("publish_gones", "Answers sent that packets are gone.", func(s *stats.Publication) float64 { return float64(s.GoneSent) }, "group"),
	counter("publish_state_rounds", "Times that state was sent, for all subscribers that waited for it.", func(s *stats.Publication) float64 { return float64(s.StateRounds) }, "group"),
	counter("publish_state_bytes", "State that was sent, without headers.", func(s *stats.Publication) float64 { return float64(s.StateBytes) }, "group"),
	counter("publish_control_packets", "Control packets sent, all in all.", func(s *stats.Publication) float64 { return float64(s.ControlSent) }, "group"),
	counter("publish_control_unsent_packets", "Control packets that the transport did not take.", func(s *stats.Publication) float64 { return float64(s.ControlUnsent) }, "group"),
	counter("publish_naks", "NAK packets received.", func(s *stats.Publication) float64 { return float64(s.NAKs) }, "group"),
	counter("publish_nak_packets", "Packets that NAKs asked for.", func(s *stats.Publication) float64 { return float64(s.NAKPackets) }, "group"),
	counter("publish_nak_duplicate_packets", "Packets that NAKs asked for again within a round trip.", func(s *stats.Publication) float64 { return float64(s.NAKDuplicate) }, "group"),
	counter("publish_nak_gone_packets", "Packets that NAKs asked for and the window no longer holds.", func(s *stats.Publication) float64 { return float64(s.NAKGone) }, "group"),
	counter("publish_nak_refused_packets", "Packets that NAKs asked for beyond the limit for receivers unknown to the publisher.", func(s *stats.Publication) float64 { return float64(s.NAKRefused) }, "group"),
	counter("publish_nak_invalid", "NAKs for packets never sent.", func(s *stats.Publication) float64 { return float64(s.NAKInvalid) }, "group"),
	counter("publish_statuses", "Status packets received.", func(s *stats.Publication) float64 { return float64(s.Statuses) }, "group"),
	counter("publish_statuses_stale", "Statuses older than another of that receiver, or too old to count.", func(s *stats.Publication) float64 { return float64(s.StatusesStale) }, "group"),
	counter("publish_receivers_joined", "Receivers that joined.", func(s *stats.Publication) float64 { return float64(s.ReceiversJoined) }, "group"),
	counter("publish_receivers_left", "Receivers that announced their leave.", func(s *stats.Publication) float64 { return float64(s.ReceiversLeft) }, "group"),
	counter("publish_receivers_behind", "Receivers that left and missed packets.", func(s *stats.Publication) float64 { return float64(s.ReceiversBehind) }, "group"),
	counter("publish_receivers_silent", "Receivers given up because they sent nothing.", func(s *stats.Publication) float64 { return float64(s.ReceiversSilent) }, "group"),
	counter("publish_receivers_released", "Receivers released because they blocked publishers for too long.", func(s *stats.Publication) float64 { return float64(s.ReceiversReleased) }, "group"),
	counter("publish_receivers_refused", "Statuses of receivers beyond the limit.", func(s *stats.Publication) float64 { return float64(s.ReceiversRefused) }, "group"),
	counter("publish_receivers_lost_packets", "Packets that receivers report as given up.", func(s *stats.Publication) float64 { return float64(s.ReceiversLost) }, "group"),
	counter("publish_requests", "Messages that were requests.", func(s *stats.Publication) float64 { return float64(s.Requests) }, "group"),
	counter("publish_replies", "Whole replies to them.", func(s *stats.Publication) float64 { return float64(s.Replies) }, "group"),
	counter("publish_reply_packets", "Packets with replies.", func(s *stats.Publication) float64 { return float64(s.ReplyPackets) }, "group"),
	counter("publish_replies_duplicate_packets", "Packets of replies that had arrived before.", func(s *stats.Publication) float64 { return float64(s.RepliesDuplicate) }, "group"),
	counter("publish_replies_late_packets", "Packets with replies to requests that are not waited for.", func(s *stats.Publication) float64 { return float64(s.RepliesLate) }, "group"),
	counter("publish_replies_refused_packets", "Packets with replies beyond the bounds on receivers and memory, or that contradict others.", func(s *stats.Publication) float64 { return float64(s.RepliesRefused) }, "group"),
	counter("publish_replies_recalled", "Replies that were asked for again.", func(s *stats.Publication) float64 { return float64(s.Recalled) }, "group"),
	counter("publish_flow_blocked", "Times that flow control stopped the publisher.", func(s *stats.Publication) float64 { return float64(s.FlowBlocked) }, "group"),
	counter("publish_rate_blocked", "Times that the rate limit stopped the publisher.", func(s *stats.Publication) float64 { return float64(s.RateBlocked) }, "group"),
	counter("publish_malformed_packets", "Packets that do not parse.", func(s *stats.Publication) float64 { return float64(s.Malformed) }, "group"),
	counter("publish_foreign_packets", "Packets of another stream, or of no use to a publisher.", func(s *stats.Publication) float64 { return float64(s.Foreign) }, "group"),
	gauge("publish_receivers", "Receivers known to be present.", func(s *stats.Publication) float64 { return float64(s.Receivers) }, "group").combining(added),
	gauge("publish_rtt_seconds", "Smoothed round trip to the receivers.", func(s *stats.Publication) float64 { return s.RTT.Seconds() }, "group"),
	gauge("publish_lead_packets", "Sequence of the next packet to be sent.", func(s *stats.Publication) float64 { return float64(s.Lead) }, "group"),
	gauge("publish_blocked", "What blocks the publisher: 0 nothing, 1 flow control, 2 the rate limit, 3 another writer's message, 4 no packet memory: the network accepts nothing, or not fast enough.", func(s *stats.Publication) float64 { return float64(s.Blocked) }, "group"),
	gauge("publish_stuck_seconds", "Time for which the network accepted no packet; 0: it accepts them.", func(s *stats.Publication) float64 { return s.Stuck.Seconds() }, "group"),
	gauge("publish_send_call_seconds", "Smoothed time that one send call takes.", func(s *stats.Publication) float64 { return s.SendCost.Seconds() }, "group"),
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
