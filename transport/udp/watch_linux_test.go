//go:build !fanfare_plainudp

package udp

import (
	"errors"
	"net"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/transport"
)

// netlinkMessage encodes a message with a body and padding.
func netlinkMessage(kind uint16, body []byte) []byte {
	b := make([]byte, unix.SizeofNlMsghdr, 256)
	h := (*unix.NlMsghdr)(unsafe.Pointer(&b[0]))
	h.Len, h.Type = uint32(unix.SizeofNlMsghdr+len(body)), kind
	b = append(b, body...)
	return append(b, make([]byte, -len(b)&3)...)
}

func linkMessage(kind uint16, family uint8, index int32, flags uint32) []byte {
	m := unix.IfInfomsg{Family: family, Index: index, Flags: flags}
	attributes := []byte{6, 0, 3, 0, 'x', 0} // a name, unpadded
	return netlinkMessage(kind, append(slices.Clone((*[unix.SizeofIfInfomsg]byte)(unsafe.Pointer(&m))[:]), attributes...))
}

func addrMessage(kind uint16, index uint32) []byte {
	m := unix.IfAddrmsg{Family: unix.AF_INET, Index: index}
	return netlinkMessage(kind, (*[unix.SizeofIfAddrmsg]byte)(unsafe.Pointer(&m))[:])
}

func TestParseLinkChange(t *testing.T) {
	var all []byte
	var want []linkChange
	for _, c := range []struct {
		message []byte
		want    linkChange
	}{
		{linkMessage(unix.RTM_NEWLINK, unix.AF_UNSPEC, 3, unix.IFF_UP), linkChange{linkChanged, 3, unix.IFF_UP}},
		{linkMessage(unix.RTM_DELLINK, unix.AF_UNSPEC, 4, unix.IFF_UP), linkChange{linkDeleted, 4, 0}},
		// An interface that leaves a bridge is not deleted.
		{linkMessage(unix.RTM_DELLINK, unix.AF_BRIDGE, 4, 0), linkChange{}},
		{addrMessage(unix.RTM_NEWADDR, 5), linkChange{addrChanged, 5, 0}},
		{addrMessage(unix.RTM_DELADDR, 6), linkChange{addrChanged, 6, 0}},
		{netlinkMessage(unix.RTM_NEWROUTE, make([]byte, 12)), linkChange{}},
		{netlinkMessage(unix.RTM_NEWLINK, make([]byte, unix.SizeofIfInfomsg-1)), linkChange{kind: linkUnknown}},
		{netlinkMessage(unix.RTM_DELADDR, nil), linkChange{kind: linkUnknown}},
	} {
		if got, rest := parseLinkChange(c.message); got != c.want || len(rest) != 0 {
			t.Errorf("%x: %+v and %d bytes more, want %+v", c.message, got, len(rest), c.want)
		}
		size := int((*unix.NlMsghdr)(unsafe.Pointer(&c.message[0])).Len)
		for n := 1; n < size; n++ { // without its end a message says nothing
			if got, rest := parseLinkChange(c.message[:n:n]); got.kind != linkUnknown || rest != nil {
				t.Errorf("%d of %d bytes: %+v", n, size, got)
			}
		}
		all, want = append(all, c.message...), append(want, c.want)
	}
	for i := 0; len(all) > 0; i++ {
		var got linkChange
		if got, all = parseLinkChange(all); got != want[i] {
			t.Errorf("message %d: %+v, want %+v", i, got, want[i])
		}
	}
	for _, length := range []uint32{0, 15, 1 << 31, 1<<32 - 1} { // must neither loop nor read on
		m := netlinkMessage(unix.RTM_NEWLINK, make([]byte, unix.SizeofIfInfomsg))
		(*unix.NlMsghdr)(unsafe.Pointer(&m[0])).Len = length
		if got, rest := parseLinkChange(m); got.kind != linkUnknown || rest != nil {
			t.Errorf("length %d: %+v and %d bytes more", length, got, len(rest))
		}
	}
}

// Without a socket to watch at there is nothing to read, and nothing to close.
func TestNoLinkWatch(t *testing.T) {
	w := &linkWatch{fd: -1}
	if b, lost := w.read(); len(b) > 0 || lost || w.discard() {
		t.Errorf("%d bytes, lost %v", len(b), lost)
	}
	w.close()
}

// What the kernel could not tell for want of buffer is looked for; nothing is
// told if nothing has happened.
func TestLinkNewsLost(t *testing.T) {
	tr, err := Open(Config{Interface: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	before := tr.at.Load()
	look, why := tr.changed(linkChange{kind: linkUnknown})
	if !look || why != nil {
		t.Errorf("changed = %v, %v", look, why)
	}
	l, err := tr.link().again(&tr.cfg)
	if err != nil || l != before.link {
		t.Errorf("the interface was %+v, and is %+v, %v", before.link, l, err)
	}
	if err := tr.attach(&l); err != nil || tr.at.Load() != before || tr.events.Pending() {
		t.Errorf("attach to the same: %v", err)
	}
	tr.Close()
	if err := tr.Poll(transport.NewBatch(1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Poll: %v", err)
	}
}
