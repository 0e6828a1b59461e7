//go:build !fanfare_plainudp

package udp

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/transport"
)

// Packets that a socket dropped are counted although no more packets arrive.
func TestOverflowIsReportedWithoutAPacket(t *testing.T) {
	rx, err := Open(Config{Interface: "127.0.0.1", Range: netip.MustParsePrefix("239.22.0.0/28"), Groups: 1, Port: testenv.Port(t), ReceiveBuffer: 16 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer rx.Close()
	if err := rx.Join(0); err != nil {
		t.Fatal(err)
	}
	conn, err := net.DialUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}, net.UDPAddrFromAddrPort(rx.groupAddr(0)))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const n = 500
	for range n {
		if _, err := conn.Write(make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	b := transport.NewBatch(64)
	for { // everything that has arrived
		if err := rx.Poll(b); err != nil {
			t.Fatal(err)
		}
		if len(b.Trains) == 0 {
			break
		}
		for i := range b.Trains {
			rx.Release(&b.Trains[i])
		}
	}
	rx.dropsReadAt = time.Time{} // so that the next Poll asks
	for range 2 {                // the join wakes the first one
		if err := rx.Wait(time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	if st := rx.Stats(); st.PacketsReceived == 0 || st.PacketsReceived+st.ReceiveOverflow != n {
		t.Errorf("%d packets arrived and %d were dropped, want %d together", st.PacketsReceived, st.ReceiveOverflow, n)
	}
}

// The Poll after a dropped reply reports it, and the next one does not. Packets that a group's socket dropped do not
// count as replies.
func TestLostRepliesAreReported(t *testing.T) {
	rx, err := Open(Config{Interface: "127.0.0.1", Range: netip.MustParsePrefix("239.22.0.0/28"), Groups: 1, Port: testenv.Port(t), ReceiveBuffer: 16 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer rx.Close()
	if err := rx.Join(0); err != nil {
		t.Fatal(err)
	}
	reported := func(to netip.AddrPort) (times int) {
		t.Helper()
		conn, err := net.DialUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}, net.UDPAddrFromAddrPort(to))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for range 500 {
			if _, err := conn.Write(make([]byte, 1000)); err != nil {
				t.Fatal(err)
			}
		}
		rx.dropsReadAt = time.Time{} // so that the next Poll asks
		before := rx.Stats().ReceiveOverflow
		for b := transport.NewBatch(64); times == 0 && rx.Stats().ReceiveOverflow == before || len(b.Trains) > 0 || b.RepliesLost; {
			rx.Wait(0)
			rx.Wait(time.Millisecond)
			if err := rx.Poll(b); err != nil {
				t.Fatal(err)
			}
			if b.RepliesLost {
				times++
			}
			for i := range b.Trains {
				rx.Release(&b.Trains[i])
			}
		}
		return times
	}
	if n := reported(rx.groupAddr(0)); n != 0 {
		t.Errorf("drops of a group were reported %d times as dropped replies, want none", n)
	}
	if reported(rx.at.Load().local) == 0 {
		t.Error("drops of replies were not reported")
	}
}
