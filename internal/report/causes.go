package report

import (
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// Causes and conditions are two tables, because they are different facts. A condition has a time: it is reported by a
// log line and an event. A cause has counters: packets and messages are counted for it. Both give the meaning, the
// advice and the alert in the same form.

// Cause is one reason why packets were dropped, or why packets or messages were lost permanently.
type Cause struct {
	// Gap is the cause of gaps, which has the label and the meaning; zero: this cause alone never loses messages.
	Gap   events.Cause
	Label string // in metrics and commands; one short word that never changes
	Help  string // what it means
	Do    string // advice, as Line.Do
	// Dropped counts the packets dropped here or lost on the way for this cause, Lost those given up. Nil: this cause
	// never drops, or never loses, packets.
	Dropped, Lost func(*stats.Bus) uint64
	// Line reports dropped packets; nil: a line specific to the cause does, or none because the cause is harmless.
	Line  *Line
	Alert *Alert // nil: none. If Expr is empty, a dropped packet fires it.
}

// Causes has all causes, in the order of a packet's path: first those for which a packet was dropped, then those for
// which it or its messages were given up.
var Causes = complete([]Cause{
	{
		Label: "unsent", Help: "Never sent: the transport of this publisher refused it. Subscribers ask for it again.",
		Do:      "The log says why: an interface that is down, a route that is missing, or a keyring in which no key is valid now (fanfare key show).",
		Dropped: func(s *stats.Bus) uint64 { return s.Transport.SendErrors },
		Alert:   &Alert{Name: "FanfareUnsent", For: "1m", Severity: warning},
	},
	{
		Label: "no_memory", Line: &PacketsDropped, Help: "Sent by this bus over shm:// and lost, counted for each receiver, because shared memory, or that receiver's share of it, was used up. Subscribers request it again, and count it as lost on the way.",
		Do:      `{{moreShared . "Find out what uses the memory: df -h and du -sh of the directory of shared memory (dir= in the URL, else /dev/shm). Give it more (mount -o remount,size=1G; of /dev/shm in a container docker run --shm-size=1g), or use another directory (dir= in the URL of all processes of the fabric). A stopped subscriber also occupies some."}}`,
		Dropped: func(s *stats.Bus) uint64 { return s.Transport.SendNoMemory },
		Alert:   &Alert{Name: "FanfareNoMemory", Severity: warning},
	},
	{
		Label: "fabric", Line: &PacketsMissed, Help: "Lost on the way here: missing, and not dropped by this host.",
		Do:      "Check whether a link was down then (group_lost, here or at the publisher). Check the switch: port errors and discards, an IGMP querier, flow control, and an MTU that is too small for full packets (fanfare doctor -peer). If the publisher's network card drops packets, lower Config.Rate. Over shm:// there is no switch: check memory at the publisher (no_memory there), and descriptors and memory of this process (transport_receive_errors).",
		Dropped: func(s *stats.Bus) uint64 { return s.LostOnWay },
		Alert:   &Alert{Name: "FanfareLossOnTheWay", Expr: `rate(fanfare_dropped_packets_total{cause="fabric"}[5m]) / ignoring (cause) rate(fanfare_transport_received_packets_total[5m]) > 0.01`, For: "5m", Severity: warning, Summary: "{{ $labels.instance }}: {{ $value | humanizePercentage }} of its packets are lost in the network, and repaired"},
	},
	{
		Label: "socket_overflow", Line: &PacketsDropped, Help: "Dropped by this host's kernel, because the receive buffer of the socket was full. Heartbeats and copies count too; a train of packets that the kernel merged counts once. Over shm:// and mem:// dropped by its publisher, because the queue in memory was full.",
		Do:      "Over shm:// and mem:// raise queue= in the URL. Over sockets raise net.core.rmem_max (sysctl -w net.core.rmem_max=33554432) and restart; if 8 MiB are granted already, also set a larger rcvbuf= in the URL. fanfare doctor and fanfare loss show the size in effect. If drops continue, this process gets too little processor time.",
		Dropped: func(s *stats.Bus) uint64 { return s.Transport.ReceiveOverflow - s.Transport.ReceiveQueueEmpty },
		Alert:   &Alert{Name: "FanfareSocketOverflow", For: "1m", Severity: warning},
	},
	{
		Label: "receive_queue_empty", Line: &PacketsDropped, Help: "Dropped by the RDMA adapter, because no receive was posted. Where the adapter does not count them: missing after the receive queue was used up.",
		Do:      `Raise rq= in the URL of {{or .Process "the fabric"}}, such as rq=16384, or give {{or .Process "this process"}} more processor time.`,
		Dropped: func(s *stats.Bus) uint64 { return s.Transport.ReceiveQueueEmpty + s.LostToQueue },
		Alert:   &Alert{Name: "FanfareReceiveQueueEmpty", For: "1m", Severity: warning},
	},
	{
		Label: "truncated", Line: &PacketsDropped, Help: "Dropped because it is larger than a receive buffer.",
		Do:      "Give all buses the same packet size (size= in the URL).",
		Dropped: func(s *stats.Bus) uint64 { return s.Transport.ReceiveTruncated },
		Alert:   &Alert{Name: "FanfareTruncated", Severity: warning},
	},
	{
		Label: "injected", Line: &PacketsMissed, Help: "Dropped on purpose, by Config.Faults or an option -faults.",
		Do:      "Omit that option.",
		Dropped: func(s *stats.Bus) uint64 { return s.Transport.Injected },
	},
	{
		Label: "bad_checksum", Help: "Dropped because its checksum is missing or wrong.",
		Do: "The log has the source address of such packets: a cable, a card or its driver damages them, or an attacker forges them.",
		Dropped: sum(func(s *stats.Bus) uint64 { return s.Transport.Damaged },
			func(g *stats.Group) uint64 { return g.Damaged }, nil),
		Alert: &Alert{Name: "FanfareDamage", Severity: warning},
	},
	{
		Label: "not_opened", Help: "Dropped by a bus with keys because it is not sealed or cannot be opened, or by a bus without keys because it is sealed.",
		Do: "The log has the reason and the source of the first one. Give all buses of the groups one keyring (keys=FILE in the URL); otherwise an attacker forges packets.",
		Dropped: sum(func(s *stats.Bus) uint64 {
			x := &s.Seal
			return x.Foreign + x.Open + x.Version + x.UnknownKey + x.Replayed + x.Forged + x.Stale + x.Deferred
		}, func(g *stats.Group) uint64 { return g.Sealed }, nil),
		Alert: &Alert{Name: "FanfareNotOpened", Severity: critical},
	},
	{
		Label: "not_signed", Help: "Dropped by a bus with trust because it is not signed by a trusted key, or does not verify.",
		Do: "The log has the reason and the source of the first one: a publisher without sign=, a key missing in the file of trust=, or an attacker that forges packets.",
		Dropped: func(s *stats.Bus) uint64 {
			x := &s.Sign
			return x.Unsigned + x.Malformed + x.Untrusted + x.Stale + x.Replayed + x.Forged + x.Deferred
		},
		Alert: &Alert{Name: "FanfareNotOpened", Severity: critical},
	},
	{
		Label: "malformed", Line: &PacketsDropped, Help: "Dropped because it does not parse, in whole or in part.",
		Do: "The log of a subscriber names the publisher, the log of a publisher the subscriber's address: that program is at fault, or an attacker forges its packets.",
		Dropped: sum(nil, func(g *stats.Group) uint64 { return g.Malformed },
			func(p *stats.Publication) uint64 { return p.Malformed }),
		Alert: &Alert{Name: "FanfareDamage", Severity: warning},
	},
	{
		Label: "forged", Line: &PacketsDropped, Help: "Dropped because no publisher can have sent it: an impossible sequence, or one that no second packet confirms; a NAK for packets never sent.",
		Do: "A few are usual if a publisher without flow control ran far ahead. Otherwise capture them (fanfare tap) and find the host that sends them, which a publisher's log names.",
		Dropped: sum(nil, func(g *stats.Group) uint64 { return g.Implausible - g.FarAhead },
			func(p *stats.Publication) uint64 { return p.NAKInvalid }),
		Alert: &Alert{Name: "FanfareForgery", Expr: `increase(fanfare_dropped_packets_total{cause="forged"}[5m]) > 10`, Severity: critical},
	},
	{
		Label: "version", Line: &PacketsDropped, Help: "Dropped because it has another version of the protocol, or needs a feature that is not supported here.",
		Do:      "Use one version of Fanfare in all programs on these groups.",
		Dropped: sum(nil, func(g *stats.Group) uint64 { return g.Version }, nil),
		Alert:   &Alert{Name: "FanfareOtherVersion", Severity: warning},
	},
	{
		Label: "filtered", Line: &PacketsMissed, Help: "Ignored because it is not for this bus: of other groups, partitions, Q_Keys or programs.",
		Do: "Give this bus groups, or a port, that no other program uses.",
		Dropped: sum(func(s *stats.Bus) uint64 {
			return s.ForeignReplies + s.Transport.PKeyViolations + s.Transport.QKeyViolations
		},
			func(g *stats.Group) uint64 { return g.Foreign }, func(p *stats.Publication) uint64 { return p.Foreign }),
	},
	{
		Label: "refused", Help: "Ignored because its publisher is refused: beyond the limit on publishers, or no memory for it.",
		Do:      "The log names the publisher and the limit to raise: Config.MaxPublishers or Config.ReceiveMemoryBytes.",
		Dropped: sum(nil, func(g *stats.Group) uint64 { return g.StreamsRefused }, nil),
		Alert:   &Alert{Name: "FanfareRefused", Severity: warning},
	},
	{
		Gap: events.CauseOverrun, Line: &PacketsDropped, Do: `If this bus was cut off or stopped, that is the cause: raise Config.ReceiveWindowBytes (default 8 MiB). Otherwise make the reader of {{reader . "the subscription"}} faster (the log names it), or choose another policy (sub -slow).`,
		Dropped: sum(nil, func(g *stats.Group) uint64 { return g.Overrun }, nil),
		Lost:    sum(nil, func(g *stats.Group) uint64 { return g.LostOverrun }, nil),
	},
	{
		Gap: events.CauseSlowConsumer, Do: `The reader of {{reader . "the subscription"}} is too slow: make it faster, or choose another policy for it (option SlowConsumer, sub -slow).`,
		Dropped: func(s *stats.Bus) uint64 { return s.SlowConsumerPackets },
	},
	{
		Gap: events.CauseGone, Do: `Raise Config.WindowBytes (default 8 MiB) of {{or .Publisher "the publisher"}}, which limits how far back it can repair; and find out where the packets were lost first (DROPPED PACKETS of fanfare loss).`,
		Lost: sum(nil, func(g *stats.Group) uint64 { return g.LostGone }, nil),
	},
	{
		Gap: events.CauseDeadline, Do: `Check that NAKs get from this host to {{or .Address .Publisher "the publisher"}} (unicast: a firewall?), where repairs are lost, and that its full packets pass (different MTUs: fanfare doctor -peer prints the largest that does); or raise Config.RecoveryDeadline (default 2 s).`,
		Lost: sum(nil, func(g *stats.Group) uint64 { return g.LostDeadline }, nil),
	},
	{
		Gap: events.CauseReleased, Do: `{{if .Idle}}{{notArriving .}}{{else}}The reader of {{reader . "the subscription"}} blocked {{or .Publisher "the publisher"}} until it was released: make it faster, give it a policy that blocks no publisher (sub -slow latest), or raise Config.StallLimit of the publisher (pub -stall-limit).{{end}}`,
		Lost: sum(nil, func(g *stats.Group) uint64 { return g.LostReleased }, nil),
	},
	{
		Gap: events.CausePublisherLost, Do: PublisherLost.Do,
		Lost: sum(nil, func(g *stats.Group) uint64 { return g.LostEnd }, nil),
	},
	{
		Gap: events.CauseRestart, Do: "Close publishers before their process exits: Close waits until subscribers have everything. Their packets are counted as publisher_lost.",
	},
	{
		Gap: events.CauseTooLarge, Do: "Raise Config.MaxMessage of this bus.",
	},
	{
		Gap: events.CauseMisnumbered, Do: "The log names the program: it breaks the protocol.",
	},
	{
		Gap: events.CauseUnreadable, Do: "The log names the publisher and the reason: give the dictionary to this bus, too (Config.Dictionaries, sub -dict), or run the same version on both sides.",
		Dropped: sum(nil, func(g *stats.Group) uint64 { return g.Unreadable }, nil),
		Lost:    sum(nil, func(g *stats.Group) uint64 { return g.LostUnreadable }, nil),
	},
	{
		Gap: events.CauseTooManyTopics, Do: "Spread the topics over more groups (groups= in the URL of all buses), or subscribe to them by their names.",
	},
})

// complete fills in the label and the meaning of the causes of gaps.
func complete(all []Cause) []Cause {
	for i := range all {
		if c := &all[i]; c.Gap != events.CauseNone {
			c.Label, c.Help = c.Gap.Label(), sentence(c.Gap.String())
		}
	}
	return all
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
