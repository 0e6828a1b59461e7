package peer

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/doctor"
)

// expected is a finding that a test wants: its level, and parts of its text and fix.
type expected struct {
	level         doctor.Level
	wantText, fix string
}

func check(t *testing.T, findings []doctor.Finding, want []expected) {
	t.Helper()
	for _, w := range want {
		if !slices.ContainsFunc(findings, func(f doctor.Finding) bool {
			return f.Level == w.level && strings.Contains(f.Text, w.wantText) && strings.Contains(f.Fix, w.fix)
		}) {
			t.Errorf("no finding %v with %q and fix %q", w.level, w.wantText, w.fix)
		}
	}
	for _, f := range findings {
		// All warnings and failures must be expected: no other fault may be reported.
		if f.Level >= doctor.Warn && !slices.ContainsFunc(want, func(w expected) bool { return w.level == f.Level && strings.Contains(f.Text, w.wantText) }) {
			t.Errorf("unexpected finding %v: %s", f.Level, f.Text)
		}
		if f.Area == "" || f.Text == "" || strings.Contains(f.Text, "%!") {
			t.Errorf("finding %+v lacks an area or a text, or is badly formatted", f)
		}
	}
	if t.Failed() {
		for _, f := range findings {
			t.Logf("finding %v: %s: %s [%s]", f.Level, f.Area, f.Text, f.Fix)
		}
	}
}

// good is the result of a good network.
func good() *Result {
	row := func(n, ttl int) Row { return Row{n, Tally{Received: n, TTL: ttl, Merged: n}} }
	d := Direction{row(probes, 1), row(probes, unicastTTL), row(trains*trainProbes, 1), row(replies, unicastTTL), 1500}
	host := Info{Host: "a", Interface: "eth0", MTU: 1500, GSO: true, GRO: true, ReceivesIGMP: true, Querier: "10.0.0.9", QuerierEvery: 125, IGMPVersion: 3, Listened: 5}
	there := host
	there.Host = "b"
	return &Result{
		Here: host, There: there, Group: "239.20.255.3:7401", TTL: 1, To: d, From: d, Finished: true,
		Clock: Clock{Samples: samples, RoundTrip: 100 * time.Microsecond, Median: 120 * time.Microsecond, Offset: 10 * time.Microsecond, Error: 50 * time.Microsecond},
		Watch: Watch{300, Outcome{Received: 300}, Outcome{Received: 300}},
	}
}

// Findings for results; TestNamespaceNetworks covers those that a real network can produce.
func TestFindings(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Result)
		want   []expected
	}{
		{"good", func(*Result) {}, []expected{
			{doctor.OK, "the peer (b on eth0) answers: round trip 100µs minimum, 120µs median of 30", ""},
			{doctor.OK, "GSO and GRO work to the peer: 160 of 160", ""},
			{doctor.OK, "multicast to the peer and from the peer continued for 300 s, longer than", ""},
		}},
		{"a clock ahead", func(r *Result) { r.Clock.Offset = time.Millisecond }, []expected{{doctor.Info, "the peer's clock is 1ms ahead of this host's, with an error of 50µs", ""}}},
		{"a clock far behind", func(r *Result) { r.Clock.Offset = -time.Minute }, []expected{{doctor.Warn, "the peer's clock is 1m0s behind this host's", "set-ntp"}}},
		{"no clock", func(r *Result) { r.Clock = Clock{} }, []expected{{doctor.Warn, "none of 30 requests for its clock was answered immediately", ""}}},
		{"no GRO", func(r *Result) { r.To.Train.Merged = 0 }, []expected{{doctor.Info, "GSO but no GRO to the peer: 160 packets of 10 trains", "gro on"}}},
		{"no GSO there", func(r *Result) { r.There.GSO = false }, []expected{{doctor.Warn, "no GSO from the peer", "ethtool -K eth0"}}},
		{"trains are dropped", func(r *Result) { r.To.Train.Tally = Tally{} }, []expected{{doctor.Warn, "trains do not pass to the peer, but single packets do", "tx-udp-segmentation off"}}},
		{"neither multicast nor unicast", func(r *Result) { r.To.Multicast.Tally, r.To.Unicast.Tally, r.To.Packet = Tally{}, Tally{}, 0 }, []expected{
			{doctor.Fail, "neither multicast nor unicast probes pass to the peer", "nft list ruleset"},
			{doctor.Warn, "the largest packet that passes to the peer is unknown", ""},
		}},
		{"no multicast can be sent", func(r *Result) { r.From.Multicast = Row{} }, []expected{{doctor.Fail, "no multicast can be sent from the peer", "ip route"}}},
		{"a cloud", func(r *Result) {
			r.To.Multicast.Tally, r.There.Environment = Tally{}, "Amazon EC2"
		}, []expected{{doctor.Fail, "but 200 of 200 by unicast: the peer: Amazon EC2", "fanfare doctor"}}},
		{"a cloud that carries it", func(r *Result) { r.There.Environment = "Amazon EC2" }, nil},
		{"routers that route multicast", func(r *Result) { r.To.Unicast.TTL = 62; r.TTL = 5 }, []expected{{doctor.OK, "multicast passes to the peer through 2 routers", ""}}},
		{"routers that do not", func(r *Result) { r.To.Unicast.TTL = 62; r.TTL = 5; r.To.Multicast.Tally = Tally{} }, []expected{{doctor.Fail, "there are 2 routers on the path, which must route multicast (PIM)", "ip mroute"}}},
		{"querier of version 1", func(r *Result) { r.Here.IGMPVersion = 1 }, []expected{{doctor.Warn, "of version 1, which has no leave", ""}}},
		{"querier of version 2, received by the peer", func(r *Result) {
			r.Here.Querier, r.There.IGMPVersion, r.There.QuerierEvery = "", 2, 0
		}, []expected{{doctor.OK, "the peer received queries of an IGMP querier at 10.0.0.9, of version 2: switches", ""}}},
		{"no querier, for long", func(r *Result) { r.Here.Querier, r.There.Querier, r.Here.Listened = "", "", 136 }, []expected{
			{doctor.Warn, "no IGMP query was received in 2m16s, although queriers send one every 125 s by default: a switch with IGMP snooping removes members 260 s after", "mcast_querier 1"}}},
		{"no querier, for too short", func(r *Result) { r.Here.Querier, r.There.Querier, r.Here.Listened = "", "", 130 }, []expected{{doctor.Info, "run the test for longer", "-for 135s"}}},
		{"no privilege", func(r *Result) {
			for _, i := range []*Info{&r.Here, &r.There} {
				i.ReceivesIGMP, i.NoIGMPReason, i.Querier, i.Listened = false, "no CAP_NET_RAW", "", 1000
			}
		}, []expected{{doctor.Info, "neither side can receive its queries (no CAP_NET_RAW here, no CAP_NET_RAW there)", "sudo"}}},
		{"multicast stopped", func(r *Result) { r.Watch.From = Outcome{Received: 260, Stopped: 260} }, []expected{
			{doctor.Fail, "multicast from the peer stopped after 260 of 300 s, while unicast continued: a switch has removed the member a on eth0", "mcast_querier 1"},
			{doctor.OK, "multicast to the peer continued for 300 s", ""},
		}},
		{"different groups", func(r *Result) { r.There.Group, r.To.Multicast.Tally = "239.9.9.9:7401", Tally{} }, []expected{{doctor.Fail, "the two sides use different groups", "-group 239.9.9.9:7401"}}},
		{"not watched", func(r *Result) { r.Watch = Watch{} }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := good()
			c.change(r)
			check(t, r.Findings(), c.want)
		})
	}
}
