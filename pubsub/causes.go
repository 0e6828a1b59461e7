package pubsub

import (
	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// CauseInfo is one cause of dropped packets, or of messages lost permanently: its name in
// metrics and commands, and what to do about it.
type CauseInfo struct {
	Label  string // one short word that never changes
	Help   string // what it means
	Remedy string // what an operator does about it
	// Gap is the Cause of GapErrors; zero if this cause alone never loses messages.
	Gap events.Cause
	// dropped is how many packets were dropped here, or lost on the way, and lost how many
	// were given up for it; nil if none ever are.
	dropped, lost func(*stats.Bus) uint64
	// reported says how the log and an event report the dropped packets.
	reported reporting
}

// reporting is how the log and an event report packets that were dropped for a cause.
type reporting uint8

const (
	reportedApart   reporting = iota // by its own line and event, or not at all because it is harmless
	reportedQuietly                  // this host is not at fault
	reportedAsWarning
)

// dropNotes decides which drops are reported: of each cause the 1st, 2nd, 4th … packet. Loop only.
type dropNotes struct{ reported map[string]uint64 }

// note takes in how many packets were dropped for a cause up to now.
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

// Dropped is how many packets were dropped here, or lost on their way, for this cause,
// whether they were repaired afterwards or not. It reports false if none ever are.
func (c *CauseInfo) Dropped(s *stats.Bus) (n uint64, ok bool) { return read(c.dropped, s) }

// Lost is how many packets were given up for this cause. It reports false if none ever are.
func (c *CauseInfo) Lost(s *stats.Bus) (n uint64, ok bool) { return read(c.lost, s) }

func read(count func(*stats.Bus) uint64, s *stats.Bus) (n uint64, ok bool) {
	if count == nil {
		return 0, false
	}
	return count(s), true
}

// Causes are all causes of losses and drops, in the order of a packet's way: why it was
// dropped, and then why it, or its messages, were given up.
func Causes() []CauseInfo { return append([]CauseInfo(nil), causes...) }

// causes is the owner of their names. The order is that of docs/operate/metrics.md, which a test keeps equal to it.
var causes = []CauseInfo{
	{
		Label: "unsent", Help: "Never sent: the transport of this publisher refused it. Subscribers ask for it again.",
		Remedy:  "The log says why: an interface that is down, a route that is missing, or a keyring of which no key is valid any more (fanfare key show).",
		dropped: func(s *stats.Bus) uint64 { return s.Transport.SendErrors },
	},
	{
		Label: "no_memory", reported: reportedAsWarning, Help: "Sent by this bus over shm:// and lost, for a receiver each, because there was no memory left for it, or more than that receiver's share. Subscribers ask for it again, and have it as lost on the way, too.",
		Remedy:  "See what takes the memory: df -h and du -sh of the directory of shared memory (dir= in the URL, else /dev/shm). Give it more (mount -o remount,size=1G; of /dev/shm in a container docker run --shm-size=1g), or use another place (dir= in the URL of all processes of the fabric). A subscriber that has stopped keeps some, too.",
		dropped: func(s *stats.Bus) uint64 { return s.Transport.SendNoMemory },
	},
	{
		Label: "fabric", reported: reportedQuietly, Help: "Lost on the way here: found missing, and this host did not drop it.",
		Remedy:  "Look at the switch: port errors and discards, an IGMP querier, flow control. Where the publisher's card drops, lower Config.Rate. Over shm:// there is no switch: see whether its publisher had memory left (no_memory there), and this process descriptors and memory (transport_receive_errors).",
		dropped: func(s *stats.Bus) uint64 { return s.LostOnWay },
	},
	{
		Label: "socket_overflow", reported: reportedAsWarning, Help: "Dropped by this host's kernel, because the receive buffer of the socket was full. Heartbeats and copies count too; a train of packets that the kernel merged counts once. Over shm:// and mem:// dropped by its publisher, because the queue in memory was full.",
		Remedy:  "Over shm:// and mem:// raise queue= in the URL. Over sockets raise net.core.rmem_max (sysctl -w net.core.rmem_max=33554432) and start again, where 8 MiB are granted already with a larger rcvbuf= in the URL; fanfare doctor and fanfare loss say what is in effect. If it goes on, this process gets too little processor time.",
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
		Remedy: "The log names where such packets come from: a cable, a card or its driver damages them, or an attacker forges them.",
		dropped: sum(func(s *stats.Bus) uint64 { return s.Transport.Damaged },
			func(g *stats.Group) uint64 { return g.Damaged }, nil),
	},
	{
		Label: "not_opened", Help: "Dropped by a bus with keys because it is not sealed, or does not open; or by a bus without keys because it is sealed.",
		Remedy: "The log says why, and where the first came from. Give all buses of the groups one keyring (keys=FILE in the URL); or an attacker forges packets.",
		dropped: sum(func(s *stats.Bus) uint64 {
			x := &s.Seal
			return x.Foreign + x.Open + x.Version + x.UnknownKey + x.Replayed + x.Forged + x.Stale + x.Deferred
		}, func(g *stats.Group) uint64 { return g.Sealed }, nil),
	},
	{
		Label: "not_signed", Help: "Dropped by a bus with trust because it is not signed by a key that is trusted, or does not verify.",
		Remedy: "The log says why, and where the first came from: a publisher without sign=, a key that the file of trust= lacks; or an attacker forges packets.",
		dropped: func(s *stats.Bus) uint64 {
			x := &s.Sign
			return x.Unsigned + x.Malformed + x.Untrusted + x.Stale + x.Replayed + x.Forged + x.Deferred
		},
	},
	{
		Label: "malformed", reported: reportedAsWarning, Help: "Dropped because it does not parse, in whole or in part.",
		Remedy: "The log names the publisher: its program is at fault, or an attacker forges its packets.",
		dropped: sum(nil, func(g *stats.Group) uint64 { return g.Malformed },
			func(p *stats.Publication) uint64 { return p.Malformed }),
	},
	{
		Label: "forged", reported: reportedAsWarning, Help: "Dropped because no publisher can have sent it: a sequence that cannot be, or that no second packet bears out; a NAK for packets never sent.",
		Remedy: "A few are usual after a long outage, and if a publisher without flow control has run far ahead. Else capture them (fanfare tap, tcpdump) and find the host that sends them.",
		dropped: sum(nil, func(g *stats.Group) uint64 { return g.Implausible },
			func(p *stats.Publication) uint64 { return p.NAKInvalid }),
	},
	{
		Label: "version", reported: reportedAsWarning, Help: "Dropped because it is of another version of the protocol, or needs a feature that is not here.",
		Remedy:  "Bring all programs on these groups to one version.",
		dropped: sum(nil, func(g *stats.Group) uint64 { return g.Version }, nil),
	},
	{
		Label: "filtered", reported: reportedQuietly, Help: "Passed over because it is not for this bus: of other groups, partitions, Q_Keys or programs.",
		Remedy: "Give this bus groups, or a port, that nothing else uses.",
		dropped: sum(func(s *stats.Bus) uint64 {
			return s.ForeignReplies + s.Transport.PKeyViolations + s.Transport.QKeyViolations
		},
			func(g *stats.Group) uint64 { return g.Foreign }, func(p *stats.Publication) uint64 { return p.Foreign }),
	},
	{
		Label: "refused", Help: "Passed over because its publisher is refused: beyond the limit on publishers, or without memory.",
		Remedy:  "The log names the publisher, and the limit to raise: Config.MaxPublishers or Config.ReceiveMemoryBytes.",
		dropped: sum(nil, func(g *stats.Group) uint64 { return g.StreamsRefused }, nil),
	},
	{
		Label: events.CauseOverrun.Label(), reported: reportedAsWarning, Help: "Dropped because the receive window was full: this bus fell behind.",
		Remedy: "Raise Config.ReceiveWindowBytes, or read faster (fanfare sub: take what it writes faster, or choose -slow); the log names the reader (subscription not read, handler slow).",
		Gap:    events.CauseOverrun, dropped: sum(nil, func(g *stats.Group) uint64 { return g.Overrun }, nil),
		lost: sum(nil, func(g *stats.Group) uint64 { return g.LostOverrun }, nil),
	},
	{
		Label: events.CauseSlowConsumer.Label(), Help: "Passed over by a subscription that read too slowly and whose policy does not hold publishers up.",
		Remedy: "Make that reader faster, or choose another policy (option SlowConsumer).",
		Gap:    events.CauseSlowConsumer, dropped: func(s *stats.Bus) uint64 { return s.SlowConsumerPackets },
	},
	{
		Label: events.CauseGone.Label(), Help: "Given up because the publisher has it no more.",
		Remedy: "Raise the publisher's Config.WindowBytes, which says how far back it repairs; and see what lost it first.",
		Gap:    events.CauseGone, lost: sum(nil, func(g *stats.Group) uint64 { return g.LostGone }, nil),
	},
	{
		Label: events.CauseDeadline.Label(), Help: "Given up because no repair came within the recovery deadline.",
		Remedy: "See whether NAKs reach the publisher (unicast, from this host to it: a firewall?) and what loses the repairs; whether packets of the publisher's size pass (MTUs that differ: fanfare doctor -peer says the largest that does); or raise Config.RecoveryDeadline.",
		Gap:    events.CauseDeadline, lost: sum(nil, func(g *stats.Group) uint64 { return g.LostDeadline }, nil),
	},
	{
		Label: events.CauseReleased.Label(), Help: "Given up because this bus held the publisher up for longer than that waits.",
		Remedy: "Make the reader that the log names faster, or raise Config.StallLimit of the publisher.",
		Gap:    events.CauseReleased, lost: sum(nil, func(g *stats.Group) uint64 { return g.LostReleased }, nil),
	},
	{
		Label: events.CausePublisherLost.Label(), Help: "Given up because the publisher fell silent, or restarted, before it repaired it.",
		Remedy: "See why that publisher died, or what cut it off.",
		Gap:    events.CausePublisherLost, lost: sum(nil, func(g *stats.Group) uint64 { return g.LostEnd }, nil),
	},
	{
		Label: events.CauseRestart.Label(), Help: "Lost because the publisher restarted. Packets are counted as publisher_lost.",
		Remedy: "Close publishers before they end: Close waits until subscribers have everything.",
		Gap:    events.CauseRestart,
	},
	{
		Label: events.CauseTooLarge.Label(), Help: "A message exceeds the subscriber's limit.",
		Remedy: "Raise Config.MaxMessage of this bus.",
		Gap:    events.CauseTooLarge,
	},
	{
		Label: events.CauseMisnumbered.Label(), Help: "The publisher numbered messages, or parts of one, wrongly.",
		Remedy: "Find the program by its name in the log: it breaks the protocol.",
		Gap:    events.CauseMisnumbered,
	},
	{
		Label: events.CauseUnnamed.Label(), Help: "The name of their topic did not come in time: they may be of a pattern that is subscribed to.",
		Remedy: "See whether statuses reach the publisher (unicast, from this host to it), and what loses its announces; receive_names_refused counts names that are wrong or too many.",
		Gap:    events.CauseUnnamed,
	},
	{
		Label: events.CauseUnreadable.Label(), Help: "In packets that cannot be read here: their dictionary, codec, kind of run or packet size is not known, or a repair was malformed, too.",
		Remedy: "The log names the publisher and the reason: give the dictionary to this bus, too (Config.Dictionaries, sub -dict), or run the same version on both sides.",
		Gap:    events.CauseUnreadable, dropped: sum(nil, func(g *stats.Group) uint64 { return g.Unreadable }, nil),
		lost: sum(nil, func(g *stats.Group) uint64 { return g.LostUnreadable }, nil),
	},
	{
		Label: events.CauseTooManyTopics.Label(), Help: "Their group has more topics than the 131,072 that patterns can know: they may be of a pattern that is subscribed to.",
		Remedy: "Spread the topics over more groups (groups= in the URL of all buses), or subscribe to them by their names.",
		Gap:    events.CauseTooManyTopics,
	},
}

// sum adds what the bus, its groups and its publications count; any may be nil.
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
