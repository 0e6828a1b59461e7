package sys

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

func TestNoRoomTables(t *testing.T) {
	for _, c := range []struct {
		read  func([]byte) uint64
		table string
		want  uint64
	}{
		{noRoom4, "Tcp: RcvbufErrors\nTcp: 7\nUdp: InDatagrams RcvbufErrors MemErrors\nUdp: 1 2 3\nUdpLite: RcvbufErrors\nUdpLite: 9\n", 2},
		{noRoom4, "Udp: InDatagrams RcvbufErrors\nUdp: 1\n", 0},
		{noRoom4, "Udp: InDatagrams\nUdp: 1\n", 0},
		{noRoom4, "", 0},
		{noRoom6, "Udp6InErrors \t8\nUdp6RcvbufErrors                \t12\nUdpLite6RcvbufErrors 3\n", 12},
		{noRoom6, "Udp6RcvbufErrors x", 0},
		{noRoom6, "", 0},
	} {
		if got := c.read([]byte(c.table)); got != c.want {
			t.Errorf("%q: %d, want %d", c.table, got, c.want)
		}
	}
}

// Datagrams without room count.
func TestNoRoom(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "::1"} {
		rx, to := open(t, host)
		tx, from := open(t, host)
		sa := NewSockaddr(to, 0)
		count := OpenNoRoom(from.Addr().Is6())
		defer count.Close()
		overflow := func(want func(drops uint32) bool) (n uint64) {
			t.Helper()
			before := count.Count()
			for range 10000 {
				if errno := SendTo(tx, make([]byte, 1000), &sa); errno != 0 && errno != unix.EAGAIN {
					t.Fatal(errno)
				}
				if drops, _ := socketDrops(rx); want(drops) {
					return count.Count() - before
				}
				runtime.Gosched()
			}
			t.Fatal("nothing is dropped")
			return 0
		}
		SetReceiveBuffer(rx, 4096)
		if n := overflow(func(drops uint32) bool { return drops >= 20 }); n < 20 {
			t.Errorf("%s: 20 datagrams are dropped for want of room, %d are counted", host, n)
		}
	}
	if n := (&NoRoom{fd: -1}).Count(); n != 0 {
		t.Errorf("%d of a file that is none", n)
	}
}
