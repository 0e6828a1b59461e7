//go:build linux

package rocenet_test

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/rdma/roce"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/rocenet"
)

// A datagram to the RoCEv2 port that is not a RoCEv2 packet is dropped and counted in the transport's Stats.
func TestDamagedIsCounted(t *testing.T) {
	groups := ownGroups(t)
	tr := open(t, rocenet.Config{Interface: "lo", Check: roce.CheckUDP, Range: groups, Groups: 4})
	defer end(tr)
	if err := tr.Join(0); err != nil {
		t.Fatal(err)
	}
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if cerr := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptIPMreqn(int(fd), unix.IPPROTO_IP, unix.IP_MULTICAST_IF, &unix.IPMreqn{Ifindex: int32(lo.Index)})
	}); cerr != nil || err != nil {
		t.Fatalf("setting the multicast interface: %v, %v", cerr, err)
	}
	b := transport.NewBatch(16)
	joined := false
	for limit := time.Now().Add(20 * time.Second); tr.Stats().Damaged == 0; {
		if time.Now().After(limit) {
			t.Fatalf("damaged packets are not counted: %+v, %+v", tr.Stats(), tr.RoCE())
		}
		if err := tr.Poll(b); err != nil {
			t.Fatal(err)
		}
		for _, e := range b.Events {
			joined = joined || e.State == transport.Joined
		}
		if len(b.Trains) > 0 {
			t.Fatalf("%q arrived, want no packet", b.Trains[0].Data)
		}
		if joined {
			if _, err := conn.WriteToUDP([]byte("not a RoCEv2 packet, but long enough for one"), &net.UDPAddr{IP: groups.Addr().AsSlice(), Port: 4791}); err != nil {
				t.Fatal(err)
			}
		}
		if err := tr.Wait(time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}
