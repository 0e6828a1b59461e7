package sys

import (
	"encoding/binary"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// cmsg encodes a control message.
func cmsg(level, kind int32, data ...byte) []byte {
	b := make([]byte, unix.CmsgSpace(len(data)))
	h := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
	h.Level, h.Type = level, kind
	h.SetLen(unix.CmsgLen(len(data)))
	copy(b[unix.CmsgLen(0):], data)
	return b
}

func word(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }

func TestParseControl(t *testing.T) {
	gro := cmsg(unix.IPPROTO_UDP, unix.UDP_GRO, word(1472)...)
	drops := cmsg(unix.SOL_SOCKET, unix.SO_RXQ_OVFL, word(7)...)
	other := cmsg(unix.SOL_SOCKET, unix.SO_TIMESTAMP, word(99)...)
	both := Control{Segment: 1472, Drops: 7, HasDrops: true}
	for _, c := range []struct {
		name string
		b    []byte
		want Control
	}{
		{"nothing", nil, Control{}},
		{"train", gro, Control{Segment: 1472}},
		{"drops", drops, Control{Drops: 7, HasDrops: true}},
		{"no drops", cmsg(unix.SOL_SOCKET, unix.SO_RXQ_OVFL, word(0)...), Control{HasDrops: true}},
		{"both", slices.Concat(gro, drops), both},
		{"in reverse order", slices.Concat(drops, gro), both},
		{"others in between", slices.Concat(other, drops, other, gro), both},
		{"header of IPv4", slices.Concat(cmsg(unix.IPPROTO_IP, unix.IP_TTL, word(63)...), cmsg(unix.IPPROTO_IP, unix.IP_TOS, 0x28)),
			Control{HopLimit: 63, TrafficClass: 0x28}},
		{"header of IPv6", slices.Concat(cmsg(unix.IPPROTO_IPV6, unix.IPV6_TCLASS, word(0x28)...), cmsg(unix.IPPROTO_IPV6, unix.IPV6_HOPLIMIT, word(63)...)),
			Control{HopLimit: 63, TrafficClass: 0x28}},
		{"interface", cmsg(unix.IPPROTO_IP, unix.IP_PKTINFO, slices.Concat(word(3), make([]byte, 8))...), Control{Interface: 3}},
		{"user", cmsg(unix.SOL_SOCKET, unix.SCM_CREDENTIALS, slices.Concat(word(1), word(1000), word(2))...), Control{UID: 1000, HasUID: true}},
		{"half of a user", cmsg(unix.SOL_SOCKET, unix.SCM_CREDENTIALS, word(1)...), Control{}},
	} {
		if got := ParseControl(c.b); got != c.want {
			t.Errorf("%s: control data %+v, want %+v", c.name, got, c.want)
		}
		for n := range c.b {
			ParseControl(c.b[:n:n]) // must not read beyond the end
		}
	}
	zero := make([]byte, 64) // a length of 0 must not loop
	if got := ParseControl(zero); got != (Control{}) {
		t.Errorf("control data of zeroes: %+v, want none", got)
	}
}

// The kernel's counter of drops wraps, its first value may be greater than zero, and an older value is ignored.
func TestDrops(t *testing.T) {
	var d Drops
	for _, c := range []struct {
		count uint32
		want  uint64
	}{{0, 0}, {3, 3}, {3, 0}, {0x7000_0000, 0x6fff_fffd}, {2, 0}, {0xe000_0000, 0x7000_0000}, {0xffff_fff0, 0x1fff_fff0}, {5, 21}, {0xffff_fff8, 0}, {6, 1}} {
		if got := d.Update(&Control{Drops: c.count, HasDrops: true}); got != c.want {
			t.Errorf("at counter value %d: %d new drops, want %d", c.count, got, c.want)
		}
		if got := d.Update(&Control{}); got != 0 {
			t.Errorf("without a counter there are %d drops, want none", got)
		}
	}
}
