package pubsub

import (
	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// CauseInfo describes one cause of dropped packets or of messages lost permanently: its name in metrics and commands,
// and the remedy.
type CauseInfo struct {
	Label  string // one short word that never changes
	Help   string // what it means
	Remedy string // what an operator does about it
	// Gap is the Cause of GapErrors; zero if this cause alone never loses messages.
	Gap events.Cause
	// dropped counts the packets dropped here or lost on the way for this cause, lost those given up. Nil: this cause
	// never drops, or never loses, packets.
	dropped, lost func(*stats.Bus) uint64
	// reported is how the log and an event report the dropped packets.
	reported reporting
}

// reporting is how the log and an event report the dropped packets of a cause.
type reporting uint8

const (
	reportedApart   reporting = iota // by a log line and event specific to the cause, or not at all because it is harmless
	reportedQuietly                  // this host is not at fault
	reportedAsWarning
)

// dropNotes decides which drops are reported: of each cause the 1st, 2nd, 4th … packet. Loop only.
type dropNotes struct{ reported map[string]uint64 }

// note appends cause c to all if its count of dropped packets has reached the next power of two.
func (x *dropNotes) note(all []engine.Dropped, c *CauseInfo, dropped uint64) []engine.Dropped {
	if c.reported == reportedApart || !engine.Doubled(x.reported[c.Label], dropped) {
		return all
	}
	if x.reported == nil {
		x.reported = make(map[string]uint64)
	}
	x.reported[c.Label] = dropped
	return append(all, engine.Dropped{Cause: c.Label, Packets: dropped, Do: c.Remedy,
		Quiet: c.reported == reportedQuietly})
}

// Dropped is the number of packets that were dropped here, or lost on the way, for this cause, repaired afterwards or
// not. ok is false if this cause drops no packets.
func (c *CauseInfo) Dropped(s *stats.Bus) (n uint64, ok bool) { return read(c.dropped, s) }

// Lost is the number of packets that were given up for this cause. ok is false if this cause loses no packets.
func (c *CauseInfo) Lost(s *stats.Bus) (n uint64, ok bool) { return read(c.lost, s) }

func read(count func(*stats.Bus) uint64, s *stats.Bus) (n uint64, ok bool) {
	if count == nil {
		return 0, false
	}
	return count(s), true
}

// Causes returns all causes of drops and losses, in the order of a packet's path: first those why a packet was
// dropped, then those why it or its messages were given up.
func Causes() []CauseInfo { return append([]CauseInfo(nil), causes...) }

// causes defines the names. A test keeps the list in docs/operate/metrics.md equal, in this order.
var causes = []CauseInfo{
	{
		Label: "unsent", Help: "Never sent: the transport of this publisher refused it. Subscribers ask for it again.",
		Remedy:  "The log says why: an interface that is down, a route that is missing, or a keyring of which no key is valid any more (fanfare key show).",
		dropped: func(s *stats.Bus) uint64 { return s.Transport.SendErrors },
	},
	{
		Label: "no_memory", reported: reportedAsWarning, Help: "Sent by this bus over shm:// and lost, counted for each receiver, because shared memory, or that receiver's share of it, was used up. Subscribers request it again, and count it as lost on the way.",
		Remedy:  "See what takes the memory: df -h and du -sh of the directory of shared memory (dir= in the URL, else /dev/shm). Give it more (mount -o remount,size=1G; of /dev/shm in a container docker run --shm-size=1g), or use another directory (dir= in the URL of all processes of the fabric). A stopped subscriber also occupies some.",
		dropped: func(s *stats.Bus) uint64 { return s.Transport.SendNoMemory },
	},
	{
		Label: "fabric", reported: reportedQuietly, Help: "Lost on the way here: missing, and not dropped by this host.",
		Remedy:  "Check whether a link was down then (group_lost, here or at the publisher). Look at the switch: port errors and discards, an IGMP querier, flow control, and an MTU that is too small for full packets (fanfare doctor -peer). Where the publisher's card drops, lower Config.Rate. Over shm:// there is no switch: check memory at the publisher (no_memory there), and descriptors and memory of this process (transport_receive_errors).",
		dropped: func(s *stats.Bus) uint64 { return s.LostOnWay },
	},
	{
		Label: "socket_overflow", reported: reportedAsWarning, Help: "Dropped by this host's kernel, because the receive buffer of the socket was full. Heartbeats and copies count too; a train of packets that the kernel merged counts once. Over shm:// and mem:// dropped by its publisher, because the queue in memory was full.",
		Remedy:  "Over shm:// and mem:// raise queue= in the URL. Over sockets raise net.core.rmem_max (sysctl -w net.core.rmem_max=33554432) and restart; if 8 MiB are granted already, also set a larger rcvbuf= in the URL. fanfare doctor and fanfare loss show the size in effect. If drops continue, this process gets too little processor time.",
		dropped: func(s *stats.Bus) uint64 { return s.Transport.ReceiveOverflow - s.Transport.ReceiveQueueEmpty },
	},
	{
		Label: "receive_queue_empty", reported: reportedAsWarning, Help: "Dropped by the RDMA adapter, because no receive was posted. Where the adapter does not count them: missing after the receive queue was used up.",
		Remedy:  "Raise rq= in the URL of the fabric, or give this process more processor time.",
		dropped: func(s *stats.Bus) uint64 { return s.Transport.ReceiveQueueEmpty + s.LostToQueue },
	},
	{
		Label: "truncated", reported: reportedAsWarning, Help: "Dropped because it is larger than a receive buffer.",
		Remedy:  "Give all buses the same packet size (size= in the URL).",
		dropped: func(s *stats.Bus) uint64 { return s.Transport.ReceiveTruncated },
	},
	{
		Label: "injected", reported: reportedQuietly, Help: "Dropped on purpose, by Config.Faults or an option -faults.",
		Remedy:  "Leave that option out.",
		dropped: func(s *stats.Bus) uint64 { return s.Transport.Injected },
	},
	{
		Label: "bad_checksum", Help: "Dropped because its checksum is missing or wrong.",
		Remedy: "The log has the source address of such packets: a cable, a card or its driver damages them, or an attacker forges them.",
		dropped: sum(func(s *stats.Bus) uint64 { return s.Transport.Damaged },
			func(g *stats.Group) uint64 { return g.Damaged }, nil),
	},
	{
		Label: "not_opened", Help: "Dropped by a bus with keys because it is not sealed or cannot be opened, or by a bus without keys because it is sealed.",
		Remedy: "The log has the reason and the source of the first one. Give all buses of the groups one keyring (keys=FILE in the URL); otherwise an attacker forges packets.",
		dropped: sum(func(s *stats.Bus) uint64 {
			x := &s.Seal
			return x.Foreign + x.Open + x.Version + x.UnknownKey + x.Replayed + x.Forged + x.Stale + x.Deferred
		}, func(g *stats.Group) uint64 { return g.Sealed }, nil),
	},
	{
		Label: "not_signed", Help: "Dropped by a bus with trust because it is not signed by a trusted key, or does not verify.",
		Remedy: "The log has the reason and the source of the first one: a publisher without sign=, a key missing in the file of trust=, or an attacker that forges packets.",
		dropped: func(s *stats.Bus) uint64 {
			x := &s.Sign
			return x.Unsigned + x.Malformed + x.Untrusted + x.Stale + x.Replayed + x.Forged + x.Deferred
		},
	},
	{
		Label: "malformed", reported: reportedAsWarning, Help: "Dropped because it does not parse, in whole or in part.",
		Remedy: "The log names the publisher, that of a publisher the address of the subscriber: that program is at fault, or an attacker forges its packets.",
		dropped: sum(nil, func(g *stats.Group) uint64 { return g.Malformed },
			func(p *stats.Publication) uint64 { return p.Malformed }),
	},
	{
		Label: "forged", reported: reportedAsWarning, Help: "Dropped because no publisher can have sent it: an impossible sequence, or one that no second packet confirms; a NAK for packets never sent.",
		Remedy: "A few are usual if a publisher without flow control ran far ahead. Otherwise capture them (fanfare tap) and find the host that sends them, which a publisher's log names.",
		dropped: sum(nil, func(g *stats.Group) uint64 { return g.Implausible - g.FarAhead },
			func(p *stats.Publication) uint64 { return p.NAKInvalid }),
	},
	{
		Label: "version", reported: reportedAsWarning, Help: "Dropped because it has another version of the protocol, or needs a feature that is not supported here.",
		Remedy:  "Run one version of Fanfare in all programs on these groups.",
		dropped: sum(nil, func(g *stats.Group) uint64 { return g.Version }, nil),
	},
	{
		Label: "filtered", reported: reportedQuietly, Help: "Ignored because it is not for this bus: of other groups, partitions, Q_Keys or programs.",
		Remedy: "Give this bus groups, or a port, that no other program uses.",
		dropped: sum(func(s *stats.Bus) uint64 {
			return s.ForeignReplies + s.Transport.PKeyViolations + s.Transport.QKeyViolations
		},
			func(g *stats.Group) uint64 { return g.Foreign }, func(p *stats.Publication) uint64 { return p.Foreign }),
	},
	{
		Label: "refused", Help: "Ignored because its publisher is refused: beyond the limit on publishers, or no memory for it.",
		Remedy:  "The log names the publisher and the limit to raise: Config.MaxPublishers or Config.ReceiveMemoryBytes.",
		dropped: sum(nil, func(g *stats.Group) uint64 { return g.StreamsRefused }, nil),
	},
	{
		Label: events.CauseOverrun.Label(), reported: reportedAsWarning, Help: "Dropped because the receive window was full: this bus fell behind.",
		Remedy: "Where the log names a reader (subscription not read, handler slow), read faster (fanfare sub: choose -slow). Else this bus was cut off, or stopped, for longer than its window lasts: raise Config.ReceiveWindowBytes.",
		Gap:    events.CauseOverrun, dropped: sum(nil, func(g *stats.Group) uint64 { return g.Overrun }, nil),
		lost: sum(nil, func(g *stats.Group) uint64 { return g.LostOverrun }, nil),
	},
	{
		Label: events.CauseSlowConsumer.Label(), Help: "Skipped by a subscription that read too slowly with a policy that does not hold publishers up.",
		Remedy: "Make that reader faster, or choose another policy (option SlowConsumer).",
		Gap:    events.CauseSlowConsumer, dropped: func(s *stats.Bus) uint64 { return s.SlowConsumerPackets },
	},
	{
		Label: events.CauseGone.Label(), Help: "Given up because the publisher no longer has it.",
		Remedy: "Raise the publisher's Config.WindowBytes, the window from which it repairs; and find out what lost the packet first.",
		Gap:    events.CauseGone, lost: sum(nil, func(g *stats.Group) uint64 { return g.LostGone }, nil),
	},
	{
		Label: events.CauseDeadline.Label(), Help: "Given up because no repair arrived within the recovery deadline.",
		Remedy: "Check whether NAKs reach the publisher (unicast, from this host to it: a firewall?), what loses the repairs, and whether packets of the publisher's size pass (MTUs differ: fanfare doctor -peer prints the largest that does); or raise Config.RecoveryDeadline.",
		Gap:    events.CauseDeadline, lost: sum(nil, func(g *stats.Group) uint64 { return g.LostDeadline }, nil),
	},
	{
		Label: events.CauseReleased.Label(), Help: "Given up because this bus held the publisher up for longer than the publisher waits.",
		Remedy: "Make the reader that the log names faster, or raise Config.StallLimit of the publisher.",
		Gap:    events.CauseReleased, lost: sum(nil, func(g *stats.Group) uint64 { return g.LostReleased }, nil),
	},
	{
		Label: events.CausePublisherLost.Label(), Help: "Given up because the publisher fell silent or restarted before it sent a repair.",
		Remedy: "Find out why that publisher died, or what cut off it or this bus.",
		Gap:    events.CausePublisherLost, lost: sum(nil, func(g *stats.Group) uint64 { return g.LostEnd }, nil),
	},
	{
		Label: events.CauseRestart.Label(), Help: "Lost because the publisher restarted. Packets are counted as publisher_lost.",
		Remedy: "Close publishers before their process exits: Close waits until subscribers have everything.",
		Gap:    events.CauseRestart,
	},
	{
		Label: events.CauseTooLarge.Label(), Help: "A message exceeds the subscriber's limit.",
		Remedy: "Raise Config.MaxMessage of this bus.",
		Gap:    events.CauseTooLarge,
	},
	{
		Label: events.CauseMisnumbered.Label(), Help: "The publisher numbered messages, or parts of one, wrongly.",
		Remedy: "The log names the program: it breaks the protocol.",
		Gap:    events.CauseMisnumbered,
	},
	{
		Label: events.CauseUnnamed.Label(), Help: "The name of their topic did not arrive in time: it may match a subscribed pattern.",
		Remedy: "Check whether statuses reach the publisher (unicast, from this host to it), and what loses its announces; receive_names_refused counts names that are wrong or too many.",
		Gap:    events.CauseUnnamed,
	},
	{
		Label: events.CauseUnreadable.Label(), Help: "In packets that this bus cannot read: it does not know their dictionary, codec, kind of run or packet size, or the repair was malformed, too.",
		Remedy: "The log names the publisher and the reason: give the dictionary to this bus, too (Config.Dictionaries, sub -dict), or run the same version on both sides.",
		Gap:    events.CauseUnreadable, dropped: sum(nil, func(g *stats.Group) uint64 { return g.Unreadable }, nil),
		lost: sum(nil, func(g *stats.Group) uint64 { return g.LostUnreadable }, nil),
	},
	{
		Label: events.CauseTooManyTopics.Label(), Help: "Their group has more than the 131,072 topics that patterns can know: they may match a subscribed pattern.",
		Remedy: "Spread the topics over more groups (groups= in the URL of all buses), or subscribe to them by their names.",
		Gap:    events.CauseTooManyTopics,
	},
}

// sum adds a count of the bus, of its groups and of its publications; any of them may be nil.
func sum(bus func(*stats.Bus) uint64, group func(*stats.Group) uint64,
	publication func(*stats.Publication) uint64) func(*stats.Bus) uint64 {
	return func(s *stats.Bus) (n uint64) {
		if bus != nil {
			n = bus(s)
		}
		if group != nil {
			for i := range s.Groups {
				n += group(&s.Groups[i])
			}
		}
		if publication != nil {
			for i := range s.Publications {
				n += publication(&s.Publications[i])
			}
		}
		return n
	}
}
