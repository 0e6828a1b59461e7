//go:build linux

package roce

import (
	"bytes"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/rdma"
)

// TestMembershipReports reads frames: a full member's join sends an IGMP report and its leave an IGMP leave, a
// send-only member sends neither. Datagrams are sent to the group's MAC with identification 0 and DF.
func TestMembershipReports(t *testing.T) {
	if os.Getenv(isolated) == "" {
		testenv.Skip(t, "this system cannot make a network namespace")
	}
	testenv.AddVeth(t, "wire0", "wire1", 0)
	defer testenv.DelLink(t, "wire0")
	for _, link := range []string{"wire0", "wire1"} {
		testenv.LinkUp(t, link)
	}
	testenv.AddAddr(t, "wire0", "10.8.0.1/24")
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	must(t, "packet socket", err)
	defer unix.Close(fd)
	const etherTypeIPv4 = 0x0008 // in network byte order
	must(t, "bind", unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: etherTypeIPv4, Ifindex: testenv.LinkIndex(t, "wire1")}))

	p := openProvider(t, Config{Interfaces: []string{"wire0"}})
	n := newPeerAt(t, p, netip.MustParseAddr("10.8.0.1"))
	reports := map[[4]byte][]byte{} // types of records, by group
	// see reads frames until a report about the group with the record type.
	see := func(group [4]byte, record byte) {
		t.Helper()
		b := make([]byte, 2048)
		for until := time.Now().Add(20 * time.Second); !bytes.Contains(reports[group], []byte{record}); {
			k, _, err := unix.Recvfrom(fd, b, 0)
			if err == unix.EAGAIN {
				if time.Now().After(until) {
					t.Fatalf("no report of type %d about %v; received the reports %v", record, group, reports)
				}
				time.Sleep(time.Millisecond)
				continue
			}
			must(t, "receive", err)
			ip := b[14:k]
			// IGMPv3 membership report (RFC 3376 §4.2), after an IP header with the router alert option.
			if igmp := ip[int(ip[0]&0xf)*4:]; ip[9] == unix.IPPROTO_IGMP && igmp[0] == 0x22 {
				for r := igmp[8:]; len(r) >= 8; r = r[8:] {
					g := [4]byte(r[4:])
					reports[g] = append(reports[g], r[0])
				}
			}
		}
	}
	const toInclude, toExclude = 3, 4 // include nothing: leave; exclude nothing: join
	sendOnly, full, last := [4]byte{239, 1, 2, 3}, [4]byte{239, 1, 2, 4}, [4]byte{239, 1, 2, 5}
	ah := n.enter("239.1.2.3", rdma.JoinSendOnlyFullMember)
	n.enter("239.1.2.4", rdma.JoinFullMember)
	see(full, toExclude)
	for _, g := range n.join {
		_, err := n.id.BeginLeave(g)
		must(t, "leave", err)
	}
	n.join = nil
	see(full, toInclude)
	n.enter("239.1.2.5", rdma.JoinFullMember)
	see(last, toExclude)
	if got := reports[sendOnly]; got != nil {
		t.Errorf("the send-only member's group was reported: %v", got)
	}

	n.send(n.wrs(ah, 0, "on the wire"))
	b := make([]byte, 2048)
	for until := time.Now().Add(20 * time.Second); ; {
		k, _, err := unix.Recvfrom(fd, b, 0)
		if err == unix.EAGAIN && time.Now().Before(until) {
			time.Sleep(time.Millisecond)
			continue
		}
		must(t, "receive", err)
		if ip := b[14:k]; ip[9] == unix.IPPROTO_UDP {
			if !bytes.Equal(b[:6], []byte{0x01, 0x00, 0x5e, 1, 2, 3}) || ip[4] != 0 || ip[5] != 0 || ip[6]&0x40 == 0 || ip[8] != 64 || !accepted(ip) {
				t.Errorf("frame % x, want group 239.1.2.3's MAC, no IP id, don't fragment, TTL 64 and to be accepted", b[:k])
			}
			return
		}
	}
}
