package doctor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Findings about unsealed groups: without running buses, with sealed ones only, with some unsealed ones, with many.
func TestSecurity(t *testing.T) {
	open, closed := Bus{Process: "feed[7]", Name: "prices", URLs: []string{"udp://239.1.0.0/16", "udp://239.2.0.0/16"}, Open: true}, Bus{Process: "desk[8]"}
	for _, c := range []struct {
		name   string
		buses  []Bus
		silent []string
		want   []string
	}{
		{"no running bus", nil, nil, []string{"info: security: groups are not sealed unless buses have keys="}},
		{"sealed ones", []Bus{closed, closed}, nil, []string{"ok: security: 2 buses on this host, none with unsealed groups"}},
		{"an open one", []Bus{closed, open}, nil, []string{"info: security: feed[7] (prices) on udp://239.1.0.0/16, udp://239.2.0.0/16: its groups are not sealed: any host on the network"}},
		{"as many as are listed", slices.Repeat([]Bus{open}, openListed), nil, slices.Repeat([]string{"info: security: feed[7]"}, openListed)},
		{"more", slices.Repeat([]Bus{open}, openListed+3), nil, append(slices.Repeat([]string{"info: security: feed[7]"}, openListed), "info: security: the groups of 3 buses more")},
		{"one that does not answer", []Bus{closed}, []string{"/run/x.sock: no answer"}, []string{"info: security: it is unknown whether the groups of a process are sealed: /run/x.sock: no answer", "ok: security: 1 bus on"}},
	} {
		check := &check{Facts: &Facts{Buses: c.buses, Silent: c.silent}}
		check.security()
		got := make([]string, 0, len(check.findings))
		for _, f := range check.findings {
			got = append(got, fmt.Sprintf("%s: %s: %s", f.Level, f.Area, f.Text))
		}
		if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
			t.Errorf("%s: findings %q, want beginnings %q", c.name, got, c.want)
		}
	}
}
