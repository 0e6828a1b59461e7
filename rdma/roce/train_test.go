//go:build linux

package roce

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/rdma"
)

// Datagrams that fit into one train are sent with one call, others in equal parts. In both cases they arrive complete,
// in order and with the right ICRCs.
func TestEqualParts(t *testing.T) {
	for _, check := range []Check{CheckUDP, CheckFull} {
		if check == CheckFull && !rawAllowed() {
			continue
		}
		for _, c := range []struct{ count, size, calls int }{
			{58, 1096, 1},
			{64, 1096, 2},
			{64, 2048, 3}, // of 22, 22 and 20
			{64, 4096, 5},
			{1, 4096, 1},
		} {
			t.Run(fmt.Sprintf("check=%v/%dx%d", check, c.count, c.size), func(t *testing.T) {
				a := newPeer(t, openProvider(t, Config{Interfaces: []string{"lo"}, Check: check}))
				b := newPeer(t, openProvider(t, Config{Interfaces: []string{"lo"}, Check: check}))
				b.enter("239.9.0.1", rdma.JoinFullMember)
				ah := a.enter("239.9.0.1", rdma.JoinSendOnlyFullMember)
				var msgs []string
				for i := range c.count {
					msgs = append(msgs, strings.Repeat(string(rune('0'+i)), c.size))
				}
				before := a.counters()
				a.send(a.wrs(ah, 0, msgs...))
				for i, m := range b.wait(len(msgs)) {
					if m.data != msgs[i] {
						t.Fatalf("message %d has %d bytes of %q, want %d", i, len(m.data), m.data[0], len(msgs[i]))
					}
				}
				after := a.counters()
				if calls := after.SendCalls - before.SendCalls; after.GSORefused == 0 && int(calls) != c.calls {
					t.Errorf("%d calls, want %d", calls, c.calls)
				}
				if s := b.counters(); s.Recovered+s.ICRCErrors+s.Malformed > 0 {
					t.Errorf("counters %+v, want none recovered, damaged or malformed", s)
				}
			})
		}
	}
}

// A device that reads IPv4 from a raw socket receives all its groups, however many they are, but the kernel filters
// others: otherwise a publisher would read everything that it sends.
func TestRawSelection(t *testing.T) {
	if !rawAllowed() {
		testenv.Skip(t, "CAP_NET_RAW is missing")
	}
	full := func() *peer { return newPeer(t, openProvider(t, Config{Interfaces: []string{"lo"}, Check: CheckFull})) }
	pub, sub := full(), full()
	group := func(i int) string { return fmt.Sprintf("239.9.%d.%d", 1+i/256, i%256) }
	ah := pub.enter(group(0), rdma.JoinSendOnlyFullMember)
	sub.enter(group(0), rdma.JoinFullMember)
	pub.send(pub.wrs(ah, 0, "to the first group"))
	if m := sub.wait(1); m[0].data != "to the first group" {
		t.Errorf("received %q, want %q", m[0].data, "to the first group")
	}
	if n, _, err := unix.Recvfrom(pub.p.devices[0].sockets.raw.fd, make([]byte, 2048), unix.MSG_DONTWAIT|unix.MSG_PEEK); err != unix.EAGAIN {
		t.Errorf("the sender's own socket has %d bytes, error %v, want EAGAIN", n, err)
	}
	last := 0
	for i := 1; i <= maxSelected; i++ { // one more than the filter can contain
		sub.enter(group(i), rdma.JoinFullMember)
		last = i
	}
	pub.send(pub.wrs(pub.enter(group(last), rdma.JoinSendOnlyFullMember), 0, "to the last group"))
	if m := sub.wait(1); m[0].data != "to the last group" {
		t.Errorf("received %q, want %q", m[0].data, "to the last group")
	}
	// Few enough for the filter again.
	for range 2 {
		g := sub.join[len(sub.join)-1]
		p, err := sub.id.BeginLeave(g)
		must(t, "leave", err)
		if !p.Done() {
			t.Errorf("the leave of %v has not ended", g)
		}
		sub.join = sub.join[:len(sub.join)-1]
	}
	pub.send(pub.wrs(ah, 0, "again"))
	if m := sub.wait(1); m[0].data != "again" {
		t.Errorf("received %q, want %q", m[0].data, "again")
	}
	pub.send(pub.wrs(pub.unicast(netip.MustParseAddr("127.0.0.1")), sub.qp.QPN(), "to the queue pair"))
	if m := sub.wait(1); m[0].data != "to the queue pair" {
		t.Errorf("received %q, want %q", m[0].data, "to the queue pair")
	}
}
