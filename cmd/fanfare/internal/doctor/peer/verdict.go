package peer

import (
	"fmt"
	"strings"
	"time"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/doctor"
)

// Where the rules for sizes come from.
const (
	// queryInterval is how often a querier asks unless configured (RFC 3376 §8.2), with some room for it to be late.
	queryInterval  = 125 * time.Second
	queryRoom      = 10 * time.Second
	membershipTime = 260 * time.Second // how long a switch keeps a member without a querier (RFC 3376 §8.4)
	fullPacket     = 1500              // the size that udp:// fills packets to, with headers: that of Ethernet
)

type verdict struct {
	*Result
	findings []doctor.Finding
}

func (r *Result) Findings() []doctor.Finding {
	v := &verdict{Result: r}
	there := fmt.Sprintf("%s on %s", r.There.Host, r.There.Interface)
	if r.apart() {
		v.add("peer", doctor.Fail, "fanfare doctor -group "+r.There.Group+" -peer ...   # as the listener has it",
			"the two sides meet in different groups: %s here, and %s on the peer (%s). Nothing was tested: give both the same -group", r.Group, r.There.Group, there)
		return v.findings
	}
	v.clock(there)
	v.direction("to the peer", &r.To, r.There, "the peer")
	v.direction("from the peer", &r.From, r.Here, "this host")
	v.replies("to the peer", &r.To, "the peer")
	v.replies("from the peer", &r.From, "this host")
	v.packet("to the peer", r.To.Packet)
	v.packet("from the peer", r.From.Packet)
	v.querier()
	v.watched()
	return v.findings
}

func (v *verdict) add(area string, level doctor.Level, fix, text string, args ...any) {
	v.findings = append(v.findings, doctor.Finding{Area: area, Level: level, Text: fmt.Sprintf(text, args...), Fix: fix})
}

func (v *verdict) clock(there string) {
	c := v.Clock
	if c.Samples == 0 {
		v.add("peer", doctor.Warn, "", "the peer (%s) answers, but none of %d requests for its clock was answered at once", there, samples)
		return
	}
	v.add("peer", doctor.OK, "", "the peer (%s) answers: round trip %v at least, %v in the median of %d", there, c.RoundTrip.Round(time.Microsecond), c.Median.Round(time.Microsecond), c.Samples)
	ahead, offset := "ahead of", c.Offset
	if offset < 0 {
		ahead, offset = "behind", -offset
	}
	text := "the peer's clock is %v %s this host's, give or take %v: latencies from one host to the other are wrong by that"
	if offset <= c.Error {
		v.add("clock", doctor.OK, "", "the clocks agree as far as can be measured, to %v", c.Error.Round(time.Microsecond))
	} else if offset < time.Second {
		v.add("clock", doctor.Info, "", text, offset.Round(time.Microsecond), ahead, c.Error.Round(time.Microsecond))
	} else {
		v.add("clock", doctor.Warn, "timedatectl set-ntp true", text, offset.Round(time.Millisecond), ahead, c.Error.Round(time.Microsecond))
	}
}

// hops is how many networks are between the two, by what unicast lost of its TTL.
func hops(d *Direction) int {
	if d.Unicast.TTL == 0 {
		return 0
	}
	return max(unicastTTL-d.Unicast.TTL, 0)
}

func (v *verdict) direction(way string, d *Direction, receiver Info, name string) {
	m, u := d.Multicast, d.Unicast
	switch {
	case m.Sent == 0:
		v.add("multicast", doctor.Fail, "ip route show; nft list ruleset; iptables -S", "no multicast can be sent %s: the sender's own kernel refuses it", way)
		return
	case m.Received == 0 && u.Received == 0:
		v.add("multicast", doctor.Fail, "nft list ruleset; iptables -S", "nothing passes %s, neither multicast nor unicast, though it answers: a packet filter lets some packets pass", way)
		return
	case m.Received == 0:
		v.blocked(way, d, receiver, name)
		return
	}
	if n := hops(d); n > 0 {
		v.add("multicast", doctor.OK, "", "multicast passes %s over %d routers", way, n)
	} else {
		v.add("multicast", doctor.OK, "", "multicast passes %s: %d of %d probes", way, m.Received, m.Sent)
	}
	v.damage(way, d)
	v.offloads(way, d, receiver)
}

// replies says whether statuses and NAKs pass: to a publisher, from a port that it has sent nothing to.
func (v *verdict) replies(way string, d *Direction, publisher string) {
	switch r := d.Reply; {
	case r.Sent == 0 || d.Unicast.Received == 0: // nothing passes: a finding of its own
	case r.Received == 0:
		v.add("replies", doctor.Fail, "uport=7402 in the URL of publishers, and that UDP port opened on "+publisher+"   # nft list ruleset; iptables -S",
			"statuses and NAKs do not pass %s: none of %d datagrams came to a port that had only published, and %d of %d to the port of this test did. A stateful packet filter on %s or on the way does this: "+
				"publishers there would wait for no subscriber, and repair nothing", way, r.Sent, d.Unicast.Received, d.Unicast.Sent, publisher)
	default:
		v.add("replies", doctor.OK, "", "statuses and NAKs pass %s: %d of %d", way, r.Received, r.Sent)
	}
}

func (v *verdict) blocked(way string, d *Direction, receiver Info, name string) {
	text := fmt.Sprintf("multicast does not pass %s: none of %d probes to %s came, and %d of %d by unicast did", way, d.Multicast.Sent, v.Group, d.Unicast.Received, d.Unicast.Sent)
	switch n := hops(d); {
	case n > 0 && v.TTL <= n:
		v.add("multicast", doctor.Fail, fmt.Sprintf("fanfare doctor -ttl %d ...; then ttl=%d in the URL", n+1, n+1), "%s: %d routers are between, and multicast goes out with a TTL of %d. They have to route multicast, too (PIM)", text, n, v.TTL)
	case n > 0:
		v.add("multicast", doctor.Fail, "ip mroute show   # on the routers", "%s: %d routers are between, which have to route multicast (PIM)", text, n)
	case v.surroundings() != "":
		v.add("multicast", doctor.Fail, "fanfare doctor   # on both sides, says what to use instead", "%s: %s", text, v.surroundings())
	default:
		host, _, _ := strings.Cut(v.Group, ":")
		v.add("multicast", doctor.Fail, fmt.Sprintf("tcpdump -ni %s 'igmp or dst %s'   # on the receiving side; and there: nft list ruleset; iptables -S", receiver.Interface, host),
			"%s. A switch that snoops IGMP and has lost %s as a member, one that blocks unknown multicast, a wireless access point or a packet filter does this", text, name)
	}
}

func (r *Result) Passes() bool { return r.To.Multicast.Received > 0 && r.From.Multicast.Received > 0 }

func (v *verdict) surroundings() string {
	var sides []string
	if e := v.Here.Environment; e != "" {
		sides = append(sides, "this host: "+e)
	}
	if e := v.There.Environment; e != "" {
		sides = append(sides, "the peer: "+e)
	}
	return strings.Join(sides, "; ")
}

func (v *verdict) damage(way string, d *Direction) {
	m, u := d.Multicast, d.Unicast
	switch lost := m.Lost(); {
	case lost == 0:
	case u.Lost()*3 < lost && lost > 3:
		v.add("loss", doctor.Warn, "ethtool -S IFACE | grep -i drop   # and the switch's limits on multicast (storm control)",
			"%d of %d multicast probes %s were lost, and %d of %d by unicast: something limits multicast, such as storm control of a switch or a wireless network", lost, m.Sent, way, u.Lost(), u.Sent)
	default:
		v.add("loss", doctor.Warn, "ethtool -S IFACE | grep -iE 'drop|err|crc'", "%d of %d multicast probes %s were lost, and %d of %d by unicast: the link loses packets, or a buffer on the way is full. Fanfare repairs them, at the cost of latency", lost, m.Sent, way, u.Lost(), u.Sent)
	}
	if m.Duplicates > 0 {
		v.add("copies", doctor.Warn, "bridge link show; bridge -d mdb show   # look for a second way, or a mirror port",
			"%d multicast probes %s came more than once (%d by unicast): there are two ways, such as a loop or two bridges, or a switch mirrors. Fanfare drops copies; they cost bandwidth", m.Duplicates, way, u.Duplicates)
	}
	if m.Reordered > 0 {
		v.add("order", doctor.Warn, "", "%d of %d multicast probes %s came behind later ones (%d by unicast): packets take several ways, such as a bond by round robin or routers by packet. Fanfare sorts them, and asks for some that were only late", m.Reordered, m.Sent, way, u.Reordered)
	}
}

func (v *verdict) offloads(way string, d *Direction, receiver Info) {
	sender := v.Here
	if receiver == v.Here {
		sender = v.There
	}
	switch t := d.Train; {
	case !sender.GSO:
		v.add("offload", doctor.Warn, "ethtool -K "+sender.Interface+" tx-checksum-ip-generic on   # on the sending side", "GSO is not in effect %s: the sender's kernel does not cut trains, and each packet costs a system call's time", way)
	case t.Received == 0:
		v.add("offload", doctor.Warn, "ethtool -K "+sender.Interface+" tx-udp-segmentation off   # on the sending side", "trains do not pass %s, though single packets do: an adapter cuts them wrongly", way)
	case t.Merged == 0:
		v.add("offload", doctor.Info, "ethtool -K "+receiver.Interface+" gro on rx-udp-gro-forwarding on   # on the receiving side", "GSO is in effect %s, and GRO is not: %d packets of %d trains came one by one, which costs the receiver more", way, t.Received, trains)
	default:
		v.add("offload", doctor.OK, "", "GSO and GRO are in effect %s: %d of %d packets came merged", way, t.Merged, t.Received)
	}
}

func (v *verdict) packet(way string, packet int) {
	switch links := min(v.Here.MTU, v.There.MTU, maxSize+headers); {
	case packet == 0:
		v.add("mtu", doctor.Warn, "", "the largest packet that passes %s is not known: not even small ones of this test did", way)
	case packet >= links:
		v.add("mtu", doctor.OK, "", "packets of %d bytes pass %s, the MTU of the smaller link", packet, way)
	case packet < fullPacket:
		v.add("mtu", doctor.Fail, fmt.Sprintf("size=%d in the URL, on all hosts", packet-headers), "packets of up to %d bytes pass %s, though both links have an MTU of %d: larger ones vanish, and so do full packets of udp://", packet, way, links)
	default:
		v.add("mtu", doctor.Warn, "", "packets of up to %d bytes pass %s, though both links have an MTU of %d: leave size= in the URL at %d or less", packet, way, links, packet-headers)
	}
}

const makeQuerier = "ip link set BRIDGE type bridge mcast_querier 1   # of a Linux bridge; a switch has a setting 'IGMP snooping querier'"

// querier says whether the network has a querier of members, as a switch that snoops needs it.
func (v *verdict) querier() {
	heard, side := v.Here, "this host"
	if heard.Querier == "" && v.There.Querier != "" {
		heard, side = v.There, "the peer"
	}
	listened := time.Duration(0)
	for _, i := range []Info{v.Here, v.There} {
		if i.Hears {
			listened = max(listened, time.Duration(i.Listened*float64(time.Second)))
		}
	}
	enough := (queryInterval + queryRoom).Seconds()
	switch {
	case heard.Querier != "" && heard.IGMPVersion == 1:
		v.add("igmp", doctor.Warn, "", "%s hears an IGMP querier at %s, of version 1, which has no leave: switches forward groups for minutes after their last member left", side, heard.Querier)
	case heard.Querier != "" && heard.QuerierEvery > 0:
		v.add("igmp", doctor.OK, "", "%s hears an IGMP querier at %s, of version %d, which asks every %v s: switches that snoop keep their members", side, heard.Querier, heard.IGMPVersion, heard.QuerierEvery)
	case heard.Querier != "":
		v.add("igmp", doctor.OK, "", "%s hears an IGMP querier at %s, of version %d: switches that snoop keep their members", side, heard.Querier, heard.IGMPVersion)
	case !v.Here.Hears && !v.There.Hears:
		v.add("igmp", doctor.Info, "sudo fanfare doctor -peer ...", "whether there is an IGMP querier is not known: neither side can hear its queries (%s here, %s there)", v.Here.HearsNot, v.There.HearsNot)
	case listened.Seconds() < enough:
		v.add("igmp", doctor.Info, fmt.Sprintf("fanfare doctor -for %.0fs -peer ...", enough), "no IGMP query was heard in %v: a querier asks every %.0f s unless it is configured, so that says nothing yet", listened.Round(time.Second), queryInterval.Seconds())
	default:
		v.add("igmp", doctor.Warn, makeQuerier, "no IGMP query was heard in %v, and a querier asks every %.0f s unless it is configured: a switch that snoops forgets members %.0f s after they joined, and multicast stops", listened.Round(time.Second), queryInterval.Seconds(), membershipTime.Seconds())
	}
}

func (v *verdict) watched() {
	w := v.Watch
	var went []string
	for _, d := range []struct {
		way string
		Outcome
		receiver Info
	}{{"to the peer", w.To, v.There}, {"from the peer", w.From, v.Here}} {
		switch {
		case d.Stopped > 0:
			v.add("multicast", doctor.Fail, makeQuerier, "multicast %s stopped after %d of %d s, while unicast went on: a switch has forgotten the member %s on %s, as one does that snoops IGMP where no querier asks",
				d.way, d.Stopped, w.Seconds, d.receiver.Host, d.receiver.Interface)
		case d.Received > 0: // else it never began, which is a finding of its own
			went = append(went, d.way)
		}
	}
	switch way := strings.Join(went, " and "); {
	case len(went) == 0:
	case time.Duration(w.Seconds)*time.Second < membershipTime:
		v.add("multicast", doctor.Info, fmt.Sprintf("fanfare doctor -for %.0fs -peer ...", (membershipTime+queryRoom).Seconds()),
			"multicast %s went on for the %d s of this test; a switch that snoops without a querier stops it %.0f s after the join at the latest, which takes longer to see", way, w.Seconds, membershipTime.Seconds())
	default:
		v.add("multicast", doctor.OK, "", "multicast %s went on for %d s, longer than switches that snoop keep a member without a querier", way, w.Seconds)
	}
}
