//go:build rdma && linux && cgo

package verbs

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/rdmatest"
)

// igmpTrace records the IGMP reports that this host sends, except repeated ones, which the kernel sends for robustness.
type igmpTrace struct {
	mu      sync.Mutex
	records []rdmatest.Record
	member  map[groupOn]bool
}

type groupOn struct {
	host  int
	group netip.Addr
}

func newIGMPTrace(t testing.TB, hosts []testHost) *igmpTrace {
	t.Helper()
	tr := &igmpTrace{member: map[groupOn]bool{}}
	// Not blocking, so that closing ends the read.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(htons(unix.ETH_P_ALL)))
	if err != nil {
		t.Fatal(err)
	}
	index := map[int]int{}
	for i, h := range hosts {
		dev, err := net.InterfaceByName(h.netdev)
		if err != nil {
			t.Fatal(err)
		}
		index[dev.Index] = i
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 20_000}); err != nil {
		t.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 2048)
		for {
			select {
			case <-stop:
				return
			default:
			}
			n, from, err := unix.Recvfrom(fd, buf, 0)
			if err != nil {
				continue
			}
			ll, ok := from.(*unix.SockaddrLinklayer)
			if !ok || ll.Pkttype != unix.PACKET_OUTGOING {
				continue
			}
			if host, ours := index[ll.Ifindex]; ours {
				tr.packet(host, buf[:n])
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-done
		unix.Close(fd)
	})
	return tr
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

// packet records the IGMP reports in an IPv4 packet, of version 3 (RFC 3376 §4.2) and version 2 (RFC 2236 §2).
func (tr *igmpTrace) packet(host int, ip []byte) {
	if len(ip) < 20 || ip[0]>>4 != 4 || ip[9] != 2 {
		return
	}
	msg := ip[int(ip[0]&15)*4:]
	if len(msg) < 8 {
		return
	}
	addr := func(b []byte) netip.Addr { return netip.AddrFrom4([4]byte(b)) }
	switch msg[0] {
	case 0x16:
		tr.storeAttr(host, addr(msg[4:8]), true)
	case 0x17:
		tr.storeAttr(host, addr(msg[4:8]), false)
	case 0x22:
		count := binary.BigEndian.Uint16(msg[6:])
		for rec := msg[8:]; count > 0 && len(rec) >= 8; count-- {
			sources := int(binary.BigEndian.Uint16(rec[2:]))
			switch kind := rec[0]; {
			case kind == 2 || kind == 4: // is, or changes to, "exclude": a member
				tr.storeAttr(host, addr(rec[4:8]), true)
			case kind == 3 && sources == 0: // changes to "include none"
				tr.storeAttr(host, addr(rec[4:8]), false)
			}
			rec = rec[min(8+4*sources+4*int(rec[1]), len(rec)):]
		}
	}
}

func (tr *igmpTrace) storeAttr(host int, group netip.Addr, member bool) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	key := groupOn{host, group}
	if tr.member[key] == member {
		return
	}
	tr.member[key] = member
	kind := rdmatest.IGMPReport
	if !member {
		kind = rdmatest.IGMPLeave
	}
	tr.records = append(tr.records, rdmatest.Record{Kind: kind, Host: host, MGID: rdma.GIDFromIP(group)})
}

// take returns the reports since the last call.
func (tr *igmpTrace) take() []rdmatest.Record {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	list := slices.Clone(tr.records)
	tr.records = nil
	return list
}
