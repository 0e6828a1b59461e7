package ud_test

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/fabric"
	"github.com/fanfaremq/fanfare/transport/ud"
)

// Stats counts the packets that the port drops by reason, from Open on, and also after the end.
func TestPortDrops(t *testing.T) {
	flavors(t, func(t *testing.T, flavor fabric.Flavor) {
		r := newRig(t, fabric.Config{Flavor: flavor})
		host := r.f.AddHost(fabric.HostConfig{})
		early := r.node(ud.Config{Provider: host})
		r.join(early, 0)
		away := r.f.AddHost(fabric.HostConfig{})
		s := r.foreignProgram(away, early.GroupAddr(0))
		want := func(n *node, pkeys, qkeys, unclaimed uint64) {
			t.Helper()
			st := n.Stats()
			if st.PKeyViolations != pkeys || st.QKeyViolations != qkeys || st.Unclaimed != unclaimed {
				t.Errorf("%d P_Key and %d Q_Key violations and %d unclaimed are counted, want %d, %d and %d",
					st.PKeyViolations, st.QKeyViolations, st.Unclaimed, pkeys, qkeys, unclaimed)
			}
		}
		s.send("from another program", 0x4321)
		r.quiet(time.Millisecond)
		want(early, 0, 1, 1)

		// The port counted before this transport was opened.
		late := r.node(ud.Config{Provider: host})
		want(late, 0, 0, 0)
		s.send("from another program", 0x4321)
		s.send("from another program", 0x4321)
		r.quiet(time.Millisecond)
		want(early, 0, 3, 3)
		want(late, 0, 2, 2)

		s.send("welcome", rdma.UDPQKey)
		r.want(early, 0, "welcome")
		want(early, 0, 3, 3)
		if flavor == fabric.InfiniBand { // only InfiniBand has partitions
			away.Port(0, 1).SetPKeys(rdma.DefaultPKey, 0x8123)
			s.usePKey(1)
			s.send("from another partition", rdma.UDPQKey)
			r.quiet(time.Millisecond)
			want(early, 1, 3, 4)
			want(late, 1, 2, 3)
		}
		before := early.Stats()
		r.close(early)
		if after := early.Stats(); after.QKeyViolations != before.QKeyViolations || after.PKeyViolations != before.PKeyViolations || after.Unclaimed != before.Unclaimed {
			t.Errorf("statistics were %+v, after the end %+v, want no change", before, after)
		}
		if len(early.got) != 0 {
			t.Errorf("packets arrived that the port should have dropped: %q", early.got)
		}
	})
}
