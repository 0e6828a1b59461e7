package peer

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/doctor"
	"github.com/fanfaremq/fanfare/internal/testenv"
)

// A TAP device computes no checksums, so its kernel cannot split trains: the finding appears for
// each network here, correctly.
var noGSO = expected{doctor.Warn, "no GSO", "tx-checksum-ip-generic on"}

// Each fault of a network is reported in its direction, with advice, and no other fault is.
func TestNamespaceNetworks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		mtu         uint32
		there, back faults
		watch       time.Duration
		queries     bool
		want        []expected
	}{
		{name: "a switch that removes the member", there: faults{stopsAfter: 6 * time.Second}, watch: 14 * time.Second, want: []expected{
			{doctor.Fail, "multicast to the peer stopped after", "mcast_querier 1"},
			{doctor.Info, "multicast from the peer continued for the", "-for 270s"},
		}},
		{name: "a good network", queries: true, want: []expected{
			{doctor.OK, "multicast passes to the peer: 200 of 200", ""},
			{doctor.OK, "multicast passes from the peer: 200 of 200", ""},
			{doctor.OK, "packets of 1500 bytes pass to the peer", ""},
			{doctor.OK, "packets of 1500 bytes pass from the peer", ""},
			{doctor.OK, "the clocks agree", ""},
			{doctor.OK, "received queries of an IGMP querier at 10.99.7.9, of version 3, every 125 s", ""},
		}},
		{name: "no querier", want: []expected{
			{doctor.Info, "no IGMP query was received in", "-for 135s"},
		}},
		{name: "multicast passes one way only", there: faults{noMulticast: true}, want: []expected{
			{doctor.Fail, "multicast does not pass to the peer: none of 200 probes to 239.20.255.3:7401 arrived, but 200 of 200 by unicast", "tcpdump -ni eth"},
			{doctor.OK, "multicast passes from the peer", ""},
		}},
		{name: "multicast passes the other way only", back: faults{noMulticast: true}, want: []expected{
			{doctor.OK, "multicast passes to the peer", ""},
			{doctor.Fail, "multicast does not pass from the peer", "239.20.255.3"},
		}},
		{name: "a stateful packet filter before this host", back: faults{stateful: true}, want: []expected{
			{doctor.OK, "statuses and NAKs pass to the peer: 50 of 50", ""},
			{doctor.Fail, "statuses and NAKs do not pass from the peer: none of 50 datagrams arrived at a port that had sent only multicast, but 200 of 200", "uport=7402"},
		}},
		{name: "a stateful packet filter before the peer", there: faults{stateful: true}, want: []expected{
			{doctor.Fail, "statuses and NAKs do not pass to the peer", "open that UDP port on the peer"},
			{doctor.OK, "statuses and NAKs pass from the peer: 50 of 50", ""},
		}},
		{name: "loss", back: faults{loss: 0.1}, want: []expected{
			{doctor.Warn, "multicast probes from the peer were lost", "ethtool -S"},
		}},
		{name: "loss of multicast alone", there: faults{multicastLoss: 0.2}, want: []expected{
			{doctor.Warn, "something limits multicast, such as storm control", "storm control"},
		}},
		{name: "copies", there: faults{copies: 0.1}, want: []expected{
			{doctor.Warn, "multicast probes to the peer arrived more than once", "bridge"},
		}},
		{name: "reordering", back: faults{reorder: 0.2}, want: []expected{
			{doctor.Warn, "multicast probes from the peer arrived after later ones", ""},
		}},
		{name: "a small MTU on the path", there: faults{mtu: 1420}, want: []expected{
			{doctor.Fail, "packets of up to 1420 bytes pass to the peer, although both links have an MTU of 1500", "size=1392"},
			{doctor.OK, "packets of 1500 bytes pass from the peer", ""},
		}},
		{name: "jumbo frames on the links alone", mtu: 9000, there: faults{mtu: 1500}, back: faults{mtu: 4000}, want: []expected{
			{doctor.Warn, "packets of up to 1500 bytes pass to the peer, although both links have an MTU of 9000", ""},
			{doctor.Warn, "packets of up to 4000 bytes pass from the peer", ""},
		}},
		{name: "routers", there: faults{noMulticast: true, hops: 2}, back: faults{noMulticast: true, hops: 2}, want: []expected{
			{doctor.Fail, "multicast does not pass to the peer", "ttl=3 in the URL"},
			{doctor.Fail, "there are 2 routers on the path, and multicast is sent with TTL 1", "ttl=3 in the URL"},
			{doctor.Fail, "multicast does not pass from the peer", "ttl=3 in the URL"},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // the test mostly waits
			if c.watch > 0 && testing.Short() {
				t.Skip("takes 14 s: skipped with -short")
			}
			if !testenv.Namespace(t) {
				return
			}
			if c.mtu == 0 {
				c.mtu = 1500
			}
			here, far := newHost(t, hosts[0], c.mtu), listening(t, c.mtu)
			w := connect(t, here, far, c.there, c.back)
			var query func(string)
			if query = func(string) {}; c.queries {
				query = func(string) { w.query(0) }
			}
			r, err := Examine(t.Context(), config(t, 0), netip.AddrPortFrom(netip.MustParseAddr(hosts[1]), 7401), c.watch, query)
			if err != nil {
				t.Fatal(err)
			}
			want := c.want
			if !r.Here.GSO || !r.There.GSO {
				want = append(want, noGSO)
			}
			check(t, r.Findings(), want)
		})
	}
}

// Examine reports a missing or busy listener, and nothing is left behind.
func TestNamespaceNoAnswer(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	if !testenv.Namespace(t) {
		return
	}
	here, far := newHost(t, hosts[0], 1500), listening(t, 1500)
	connect(t, here, far, faults{}, faults{})
	noListener := netip.MustParseAddrPort(hosts[1] + ":7402")
	if _, err := Examine(t.Context(), config(t, 0), noListener, 0, func(string) {}); err == nil || !strings.Contains(err.Error(), ErrNoAnswer.Error()) {
		t.Errorf("Examine without a listener fails with %v, want %v", err, ErrNoAnswer)
	}
	peer := netip.MustParseAddrPort(hosts[1] + ":7401")
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := fmt.Errorf("stop")
	if _, err := Examine(ctx, config(t, 0), peer, time.Hour, func(what string) {
		if strings.Contains(what, "continues") {
			cancel(stop)
		}
	}); err != stop {
		t.Errorf("Examine ended early with %v, want %v", err, stop)
	}
	// Several at the same time, as from several terminals.
	errs := make(chan error)
	for range 3 {
		go func() {
			_, err := Examine(t.Context(), config(t, 0), peer, 0, func(string) {})
			errs <- err
		}()
	}
	for range 3 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}
