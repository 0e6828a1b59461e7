package peer

import (
	"fmt"
	"strings"
	"time"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/doctor"
)

const makeQuerier = "ip link set BRIDGE type bridge mcast_querier 1   # of a Linux bridge; a switch has a setting 'IGMP snooping querier'"

// querier says whether somebody asks for members, as a switch that snoops needs it.
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

// watched says whether multicast went on.
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
		v.add("multicast", doctor.OK, "", "multicast %s went on for %d s, longer than switches that snoop keep a member that nobody asks", way, w.Seconds)
	}
}
