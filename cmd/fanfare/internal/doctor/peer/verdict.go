package peer

import (
	"fmt"
	"strings"
	"time"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/doctor"
)

// Sources of the limits.
const (
	// queryInterval is the default interval of a querier (RFC 3376 §8.2); queryRoom allows for delay.
	queryInterval  = 125 * time.Second
	queryRoom      = 10 * time.Second
	membershipTime = 260 * time.Second // time until a switch removes a member without a querier (RFC 3376 §8.4)
	fullPacket     = 1500              // default packet size of udp://, with headers: the MTU of Ethernet
)

type verdict struct {
	*Result
	findings []doctor.Finding
}

func (r *Result) Findings() []doctor.Finding {
	v := &verdict{Result: r}
	there := fmt.Sprintf("%s on %s", r.There.Host, r.There.Interface)
	if r.apart() {
		v.add("peer", doctor.Fail, "fanfare doctor -group "+r.There.Group+" -peer ...   # the group of the listener",
			"the two sides use different groups: %s here, and %s on the peer (%s). Nothing was tested: use the same -group on both", r.Group, r.There.Group, there)
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
		v.add("peer", doctor.Warn, "", "the peer (%s) answers, but none of %d requests for its clock was answered immediately", there, samples)
		return
	}
	v.add("peer", doctor.OK, "", "the peer (%s) answers: round trip %v minimum, %v median of %d", there, c.RoundTrip.Round(time.Microsecond), c.Median.Round(time.Microsecond), c.Samples)
	ahead, offset := "ahead of", c.Offset
	if offset < 0 {
		ahead, offset = "behind", -offset
	}
	text := "the peer's clock is %v %s this host's, with an error of %v: latencies measured between the hosts are wrong by this offset"
	if offset <= c.Error {
		v.add("clock", doctor.OK, "", "the clocks agree within the measurement error of %v", c.Error.Round(time.Microsecond))
	} else if offset < time.Second {
		v.add("clock", doctor.Info, "", text, offset.Round(time.Microsecond), ahead, c.Error.Round(time.Microsecond))
	} else {
		v.add("clock", doctor.Warn, "timedatectl set-ntp true", text, offset.Round(time.Millisecond), ahead, c.Error.Round(time.Microsecond))
	}
}

// hops is the number of routers on the path, from the TTL of unicast packets.
func hops(d *Direction) int {
	if d.Unicast.TTL == 0 {
		return 0
	}
	return max(unicastTTL-d.Unicast.TTL, 0)
}

func (v *verdict) direction(dir string, d *Direction, receiver Info, name string) {
	m, u := d.Multicast, d.Unicast
	switch {
	case m.Sent == 0:
		v.add("multicast", doctor.Fail, "ip route show; nft list ruleset; iptables -S", "no multicast can be sent %s: the sender's kernel refuses it", dir)
		return
	case m.Received == 0 && u.Received == 0:
		v.add("multicast", doctor.Fail, "nft list ruleset; iptables -S", "neither multicast nor unicast probes pass %s, although the listener answers: a packet filter drops some packets", dir)
		return
	case m.Received == 0:
		v.blocked(dir, d, receiver, name)
		return
	}
	if n := hops(d); n > 0 {
		v.add("multicast", doctor.OK, "", "multicast passes %s through %d routers", dir, n)
	} else {
		v.add("multicast", doctor.OK, "", "multicast passes %s: %d of %d probes", dir, m.Received, m.Sent)
	}
	v.damage(dir, d)
	v.offloads(dir, d, receiver)
}

// replies reports whether statuses and NAKs pass to a publisher with a port that has sent them nothing.
func (v *verdict) replies(dir string, d *Direction, publisher string) {
	switch r := d.Reply; {
	case r.Sent == 0 || d.Unicast.Received == 0: // reported by another finding
	case r.Received == 0:
		v.add("replies", doctor.Fail, "set uport=7402 in the URL of publishers, and open that UDP port on "+publisher+"   # nft list ruleset; iptables -S",
			"statuses and NAKs do not pass %s: none of %d datagrams arrived at a port that had sent only multicast, but %d of %d at the port of this test. The cause is a stateful packet filter on %s or on the network: "+
				"publishers there would not detect subscribers, and would repair nothing", dir, r.Sent, d.Unicast.Received, d.Unicast.Sent, publisher)
	default:
		v.add("replies", doctor.OK, "", "statuses and NAKs pass %s: %d of %d", dir, r.Received, r.Sent)
	}
}

func (v *verdict) blocked(dir string, d *Direction, receiver Info, name string) {
	text := fmt.Sprintf("multicast does not pass %s: none of %d probes to %s arrived, but %d of %d by unicast", dir, d.Multicast.Sent, v.Group, d.Unicast.Received, d.Unicast.Sent)
	switch n := hops(d); {
	case n > 0 && v.TTL <= n:
		v.add("multicast", doctor.Fail, fmt.Sprintf("fanfare doctor -ttl %d ...; then ttl=%d in the URL", n+1, n+1), "%s: there are %d routers on the path, and multicast is sent with TTL %d. The routers must also route multicast (PIM)", text, n, v.TTL)
	case n > 0:
		v.add("multicast", doctor.Fail, "ip mroute show   # on the routers", "%s: there are %d routers on the path, which must route multicast (PIM)", text, n)
	case v.surroundings() != "":
		v.add("multicast", doctor.Fail, "fanfare doctor   # on both sides, for alternatives", "%s: %s", text, v.surroundings())
	default:
		host, _, _ := strings.Cut(v.Group, ":")
		v.add("multicast", doctor.Fail, fmt.Sprintf("tcpdump -ni %s 'igmp or dst %s'   # on the receiving side; and there: nft list ruleset; iptables -S", receiver.Interface, host),
			"%s. Possible causes: a switch with IGMP snooping that removed %s as a member, a switch that blocks unknown multicast, a wireless access point, or a packet filter", text, name)
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

func (v *verdict) damage(dir string, d *Direction) {
	m, u := d.Multicast, d.Unicast
	switch lost := m.Lost(); {
	case lost == 0:
	case u.Lost()*3 < lost && lost > 3:
		v.add("loss", doctor.Warn, "ethtool -S IFACE | grep -i drop   # and the switch's limits on multicast (storm control)",
			"%d of %d multicast probes %s were lost, and %d of %d by unicast: something limits multicast, such as storm control of a switch or a wireless network", lost, m.Sent, dir, u.Lost(), u.Sent)
	default:
		v.add("loss", doctor.Warn, "ethtool -S IFACE | grep -iE 'drop|err|crc'", "%d of %d multicast probes %s were lost, and %d of %d by unicast: a link loses packets, or a buffer on the path overflows. Fanfare repairs losses at the cost of latency", lost, m.Sent, dir, u.Lost(), u.Sent)
	}
	if m.Duplicates > 0 {
		v.add("copies", doctor.Warn, "bridge link show; bridge -d mdb show   # look for a second path or a mirror port",
			"%d multicast probes %s arrived more than once (%d by unicast): there are two paths, such as a loop or two bridges, or a switch mirrors packets. Fanfare drops duplicates; they cost bandwidth", m.Duplicates, dir, u.Duplicates)
	}
	if m.Reordered > 0 {
		v.add("order", doctor.Warn, "", "%d of %d multicast probes %s arrived after later ones (%d by unicast): packets take several paths, such as a round-robin bond or per-packet routing. Fanfare restores the order, but requests repairs for some late packets", m.Reordered, m.Sent, dir, u.Reordered)
	}
}

func (v *verdict) offloads(dir string, d *Direction, receiver Info) {
	sender := v.Here
	if receiver == v.Here {
		sender = v.There
	}
	switch t := d.Train; {
	case !sender.GSO:
		v.add("offload", doctor.Warn, "ethtool -K "+sender.Interface+" tx-checksum-ip-generic on   # on the sending side", "no GSO %s: the sender's kernel does not split trains, so each packet costs a system call", dir)
	case t.Received == 0:
		v.add("offload", doctor.Warn, "ethtool -K "+sender.Interface+" tx-udp-segmentation off   # on the sending side", "trains do not pass %s, but single packets do: an adapter splits them incorrectly", dir)
	case t.Merged == 0:
		v.add("offload", doctor.Info, "ethtool -K "+receiver.Interface+" gro on rx-udp-gro-forwarding on   # on the receiving side", "GSO but no GRO %s: %d packets of %d trains arrived one by one, which costs the receiver more processor time", dir, t.Received, trains)
	default:
		v.add("offload", doctor.OK, "", "GSO and GRO work %s: %d of %d packets arrived merged", dir, t.Merged, t.Received)
	}
}

func (v *verdict) packet(dir string, packet int) {
	switch links := min(v.Here.MTU, v.There.MTU, maxSize+headers); {
	case packet == 0:
		v.add("mtu", doctor.Warn, "", "the largest packet that passes %s is unknown: not even the small packets of this test passed", dir)
	case packet >= links:
		v.add("mtu", doctor.OK, "", "packets of %d bytes pass %s, the MTU of the smaller link", packet, dir)
	case packet < fullPacket:
		v.add("mtu", doctor.Fail, fmt.Sprintf("size=%d in the URL, on all hosts", packet-headers), "only packets of up to %d bytes pass %s, although both links have an MTU of %d: larger packets are dropped, including full packets of udp://", packet, dir, links)
	default:
		v.add("mtu", doctor.Warn, "", "only packets of up to %d bytes pass %s, although both links have an MTU of %d: keep size= in the URL at %d or less", packet, dir, links, packet-headers)
	}
}

const makeQuerier = "ip link set BRIDGE type bridge mcast_querier 1   # on a Linux bridge; on a switch enable 'IGMP snooping querier'"

// querier reports whether the network has an IGMP querier, which IGMP snooping requires.
func (v *verdict) querier() {
	host, side := v.Here, "this host"
	if host.Querier == "" && v.There.Querier != "" {
		host, side = v.There, "the peer"
	}
	listened := time.Duration(0)
	for _, i := range []Info{v.Here, v.There} {
		if i.ReceivesIGMP {
			listened = max(listened, time.Duration(i.Listened*float64(time.Second)))
		}
	}
	enough := (queryInterval + queryRoom).Seconds()
	switch {
	case host.Querier != "" && host.IGMPVersion == 1:
		v.add("igmp", doctor.Warn, "", "%s received queries of an IGMP querier at %s, of version 1, which has no leave message: switches forward groups for minutes after their last member left", side, host.Querier)
	case host.Querier != "" && host.QuerierEvery > 0:
		v.add("igmp", doctor.OK, "", "%s received queries of an IGMP querier at %s, of version %d, every %v s: switches with IGMP snooping keep their members", side, host.Querier, host.IGMPVersion, host.QuerierEvery)
	case host.Querier != "":
		v.add("igmp", doctor.OK, "", "%s received queries of an IGMP querier at %s, of version %d: switches with IGMP snooping keep their members", side, host.Querier, host.IGMPVersion)
	case !v.Here.ReceivesIGMP && !v.There.ReceivesIGMP:
		v.add("igmp", doctor.Info, "sudo fanfare doctor -peer ...", "it is unknown whether there is an IGMP querier: neither side can receive its queries (%s here, %s there)", v.Here.NoIGMPReason, v.There.NoIGMPReason)
	case listened.Seconds() < enough:
		v.add("igmp", doctor.Info, fmt.Sprintf("fanfare doctor -for %.0fs -peer ...", enough), "no IGMP query was received in %v, but queriers send one every %.0f s by default: run the test for longer", listened.Round(time.Second), queryInterval.Seconds())
	default:
		v.add("igmp", doctor.Warn, makeQuerier, "no IGMP query was received in %v, although queriers send one every %.0f s by default: a switch with IGMP snooping removes members %.0f s after they joined, and multicast stops", listened.Round(time.Second), queryInterval.Seconds(), membershipTime.Seconds())
	}
}

func (v *verdict) watched() {
	w := v.Watch
	var delivered []string
	for _, d := range []struct {
		dir string
		Outcome
		receiver Info
	}{{"to the peer", w.To, v.There}, {"from the peer", w.From, v.Here}} {
		switch {
		case d.Stopped > 0:
			v.add("multicast", doctor.Fail, makeQuerier, "multicast %s stopped after %d of %d s, while unicast continued: a switch has removed the member %s on %s, as switches with IGMP snooping do without a querier",
				d.dir, d.Stopped, w.Seconds, d.receiver.Host, d.receiver.Interface)
		case d.Received > 0: // otherwise it never passed, which is another finding
			delivered = append(delivered, d.dir)
		}
	}
	switch dir := strings.Join(delivered, " and "); {
	case len(delivered) == 0:
	case time.Duration(w.Seconds)*time.Second < membershipTime:
		v.add("multicast", doctor.Info, fmt.Sprintf("fanfare doctor -for %.0fs -peer ...", (membershipTime+queryRoom).Seconds()),
			"multicast %s continued for the %d s of this test; a switch with IGMP snooping and no querier stops it at most %.0f s after the join, which needs a longer test", dir, w.Seconds, membershipTime.Seconds())
	default:
		v.add("multicast", doctor.OK, "", "multicast %s continued for %d s, longer than switches with IGMP snooping keep a member without a querier", dir, w.Seconds)
	}
}
