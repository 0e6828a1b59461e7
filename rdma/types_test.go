package rdma

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"testing"
)

func TestGID(t *testing.T) {
	for s, multicast := range map[string]bool{
		"ff12:4001:ffff::f01:203": true, "::ffff:239.1.2.3": true, "::ffff:224.0.0.0": true,
		"::ffff:223.255.255.255": false, "::ffff:240.0.0.0": false, "fe80::1": false, "::": false,
	} {
		g, err := ParseGID(s)
		if err != nil || g.String() != s || g.IsMulticast() != multicast {
			t.Errorf("%s: %v, multicast %v, error %v, want %v", s, g, g.IsMulticast(), err, multicast)
		}
	}
	for _, s := range []string{"", "x", "fe80::1%eth0", "239.1.2"} {
		if g, err := ParseGID(s); err == nil {
			t.Errorf("%q was parsed as %v, want an error", s, g)
		}
	}
	if g, err := ParseGID("239.1.2.3"); err != nil || !g.IsV4Mapped() || g.IP() != netip.MustParseAddr("239.1.2.3") {
		t.Errorf("GID %v, error %v, want IPv4-mapped 239.1.2.3", g, err)
	}
	g := GIDFromParts(0xfe80_0000_0000_0000, 0x1234)
	if g.String() != "fe80::1234" || g != GIDFromIP(netip.MustParseAddr("fe80::1234")) {
		t.Errorf("GID %v, want fe80::1234", g)
	}
	if !GIDFromIP(netip.Addr{}).IsZero() {
		t.Error("an invalid address has a GID")
	}
}

func TestNumbers(t *testing.T) {
	for got, want := range map[fmt.Stringer]string{LID(0xC001): "0xc001", MulticastQPN: "0xffffff", UDPQKey: "0x01234567", PKey(0x8001): "0x8001"} {
		if got.String() != want {
			t.Errorf("text %v, want %s", got, want)
		}
	}
	if p := PKey(0x8001); p.Base() != 1 || !p.IsFull() {
		t.Errorf("base %v and full %v of %v, want 1 and true", p.Base(), p.IsFull(), p)
	}
	for lid, multicast := range map[LID]bool{0: false, 0xBFFF: false, 0xC000: true, 0xFFFE: true, 0xFFFF: false} {
		if lid.IsMulticast() != multicast {
			t.Errorf("LID %v is multicast: %v, want %v", lid, !multicast, multicast)
		}
	}
}

func TestPKeyMatches(t *testing.T) {
	for _, c := range []struct {
		a, b PKey
		want bool
	}{{0xffff, 0xffff, true}, {0xffff, 0x7fff, true}, {0x7fff, 0xffff, true}, {0x7fff, 0x7fff, false}, {0x8001, 0x8002, false}} {
		if c.a.Matches(c.b) != c.want {
			t.Errorf("P_Keys %v and %v match: %v, want %v", c.a, c.b, !c.want, c.want)
		}
	}
}

func TestMTU(t *testing.T) {
	for bytes, want := range map[int]MTU{255: 0, 256: 256, 1404: 1024, 4104: 4096, 8904: 4096} {
		if got := MTUFor(bytes); got != want {
			t.Errorf("MTUFor(%d) = %d, want %d", bytes, got, want)
		}
	}
	for code, want := range map[uint8]MTU{0: 0, 1: 256, 3: 1024, 5: 4096, 6: 0} {
		if got := MTUFromCode(code); got != want || want != 0 && got.Code() != code {
			t.Errorf("code %d is MTU %d, want %d", code, got, want)
		}
	}
}

func TestAddr(t *testing.T) {
	mapped := IPAddr(netip.MustParseAddr("::ffff:239.1.2.3"))
	if mapped != mustAddr(t, "239.1.2.3") || mapped.Size() != 16 {
		t.Errorf("v4-mapped address is %v, want 239.1.2.3 of 16 bytes", mapped)
	}
	a := IPPortAddr(netip.MustParseAddrPort("[ff15::1]:7000"))
	a.ScopeID, a.FlowInfo = 3, 4
	if a.Size() != 28 || a.Group() != mustAddr(t, "ff15::1") || a.String() != "[ff15::1]:7000" {
		t.Errorf("%v of %d bytes, group %v, want [ff15::1]:7000 of 28 bytes", a, a.Size(), a.Group())
	}
	for _, bad := range []Addr{{}, {Family: FamilyUnix}, {Family: FamilyIPv4}, {Family: FamilyIPv6, IP: netip.MustParseAddr("1.2.3.4")}, IPAddr(netip.Addr{})} {
		if bad.Size() != 0 || bad.IsAny() {
			t.Errorf("%v has a size, %d, want none", bad, bad.Size())
		}
	}
	if _, err := ParseAddr("nowhere"); err == nil {
		t.Error("a name was accepted as an address")
	}
}

func TestErrors(t *testing.T) {
	err := error(&PostError{Index: 3, WRID: 9, Err: Errorf("post send", syscall.ENOMEM, "full")})
	if !errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.EINVAL) || errors.Is(err, net.ErrClosed) || errors.Is(err, ErrNotSupported) {
		t.Errorf("%v matches wrongly", err)
	}
	if want := "rdma: post send: full: cannot allocate memory (work request 3, id 9)"; err.Error() != want {
		t.Errorf("error text %q, want %q", err, want)
	}
	for _, errno := range []syscall.Errno{ENOTSUPP, syscall.EOPNOTSUPP, syscall.ENOSYS, syscall.ENOTSUP} {
		if err := Errorf("x", errno, ""); !errors.Is(err, ErrNotSupported) || !errors.Is(err, errno) {
			t.Errorf("%v is not ErrNotSupported", err)
		}
	}
	if int(ENOTSUPP) != 524 {
		t.Errorf("ENOTSUPP is %d, want 524", int(ENOTSUPP))
	}
	if err := ClosedError("poll CQ", "completion queue"); !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v does not match net.ErrClosed", err)
	}
	if !errors.Is(ErrNoEvent, syscall.EAGAIN) {
		t.Error("ErrNoEvent is not EAGAIN")
	}
}

func TestEventErr(t *testing.T) {
	for _, c := range []struct {
		typ    EventType
		status int
		errno  syscall.Errno
		want   syscall.Errno
	}{
		{EventMulticastJoin, 0, 0, 0}, {EventAddrResolved, 0, 0, 0},
		{EventMulticastError, 0, 0, syscall.EIO}, // it also counts as an error
		{EventMulticastError, -22, 0, syscall.EINVAL},
		{EventMulticastError, -102, 0, syscall.ENETRESET},
		{EventMulticastError, -1, syscall.ENOMEM, syscall.ENOMEM},
		{EventAddrError, -19, 0, syscall.ENODEV},
		{EventDeviceRemoval, 0, 0, syscall.ENODEV},
	} {
		ev := NewEvent(c.typ, nil, nil)
		ev.Status, ev.Errno = c.status, c.errno
		if err := ev.Err(); c.want == 0 && err != nil || c.want != 0 && !errors.Is(err, c.want) {
			t.Errorf("event %v with status %d: error %v, want %v", c.typ, c.status, err, c.want)
		}
	}
	acks := 0
	ev := NewEvent(EventMulticastJoin, nil, func() error { acks++; return nil })
	if ev.Ack() != nil || !errors.Is(ev.Ack(), syscall.EINVAL) || acks != 1 {
		t.Errorf("acknowledged %d times, want once", acks)
	}
	if err := (*Event)(nil).Ack(); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("Ack of no event fails with %v, want EINVAL", err)
	}
}
