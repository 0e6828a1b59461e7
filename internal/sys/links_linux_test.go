package sys

import (
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/testenv"
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

func TestParseLinkChanges(t *testing.T) {
	unknown := LinkChange{Kind: LinkUnknown}
	var all []byte
	var want []LinkChange
	for _, c := range []struct {
		message []byte
		want    LinkChange
	}{
		{linkMessage(unix.RTM_NEWLINK, unix.AF_UNSPEC, 3, unix.IFF_UP), LinkChange{LinkChanged, 3, unix.IFF_UP}},
		{linkMessage(unix.RTM_DELLINK, unix.AF_UNSPEC, 4, unix.IFF_UP), LinkChange{LinkDeleted, 4, 0}},
		// An interface that leaves a bridge is not deleted.
		{linkMessage(unix.RTM_DELLINK, unix.AF_BRIDGE, 4, 0), LinkChange{}},
		{addrMessage(unix.RTM_NEWADDR, 5), LinkChange{LinkAddresses, 5, 0}},
		{addrMessage(unix.RTM_DELADDR, 6), LinkChange{LinkAddresses, 6, 0}},
		{netlinkMessage(unix.RTM_NEWROUTE, make([]byte, 12)), LinkChange{}},
		{netlinkMessage(unix.RTM_NEWLINK, make([]byte, unix.SizeofIfInfomsg-1)), unknown},
		{netlinkMessage(unix.RTM_DELADDR, nil), unknown},
	} {
		if got := parseLinkChanges(c.message); !slices.Equal(got, []LinkChange{c.want}) {
			t.Errorf("changes in message %x: %+v, want %+v", c.message, got, c.want)
		}
		size := int((*unix.NlMsghdr)(unsafe.Pointer(&c.message[0])).Len)
		for n := range size { // a truncated message is ignored
			if got := parseLinkChanges(c.message[:n:n]); !slices.Equal(got, []LinkChange{unknown}) {
				t.Errorf("changes in %d of %d bytes: %+v, want %+v", n, size, got, unknown)
			}
		}
		all, want = append(all, c.message...), append(want, c.want)
	}
	if got := parseLinkChanges(all); !slices.Equal(got, want) {
		t.Errorf("all in one: %+v, want %+v", got, want)
	}
	for _, length := range []uint32{0, 15, 1 << 31, 1<<32 - 1} { // must neither loop nor read beyond the end
		m := netlinkMessage(unix.RTM_NEWLINK, make([]byte, unix.SizeofIfInfomsg))
		(*unix.NlMsghdr)(unsafe.Pointer(&m[0])).Len = length
		if got := parseLinkChanges(m); !slices.Equal(got, []LinkChange{unknown}) {
			t.Errorf("message of length %d: changes %+v, want %+v", length, got, unknown)
		}
	}
}

// The zero LinkWatch has nothing to read, and Close does nothing.
func TestNoLinkWatch(t *testing.T) {
	var w LinkWatch
	p, err := NewPoller()
	must(t, err)
	defer p.Close()
	must(t, w.AddTo(p, 1))
	if changes := w.Read(); len(changes) > 0 || w.Discard() || w.Reports() || w.IsGone(1<<30) {
		t.Errorf("changes %v, want no change, nothing discarded and no interface gone", changes)
	}
	w.Close()
}

// The kernel reports when an interface comes up, gets addresses and is deleted; IsGone works without these reports.
func TestLinkWatch(t *testing.T) {
	if !testenv.Namespace(t) {
		return
	}
	var w LinkWatch
	must(t, w.Open())
	defer w.Close()
	if !w.Reports() {
		t.Fatal("the kernel does not report changes")
	}
	waiter := newWaiter(t)
	must(t, w.AddTo(waiter.Poller, 5))
	testenv.AddVeth(t, "watched", "watched-end", 77)
	if w.IsGone(77) || !w.IsGone(78) {
		t.Error("IsGone is wrong: interface 77 exists, 78 does not")
	}
	if !w.Discard() || w.Discard() {
		t.Error("a new interface is not reported exactly once")
	}
	await := func(is func(LinkChange) bool) {
		t.Helper()
		for {
			until(waiter, (*Waiter).Sleep, 5, Forever)
			if slices.ContainsFunc(w.Read(), is) {
				return
			}
		}
	}
	testenv.LinkUp(t, "watched")
	await(func(c LinkChange) bool { return c.Kind == LinkChanged && c.Index == 77 && c.Flags&unix.IFF_UP != 0 })
	testenv.AddAddr(t, "watched", "10.44.0.1/24")
	await(func(c LinkChange) bool { return c.Kind == LinkAddresses && c.Index == 77 })
	// More than the socket's buffer holds.
	for range 300 {
		testenv.LinkDown(t, "watched")
		testenv.LinkUp(t, "watched")
	}
	await(func(c LinkChange) bool { return c == LinkChange{Kind: LinkUnknown} })
	w.Discard()
	testenv.DelLink(t, "watched")
	await(func(c LinkChange) bool { return c.Kind == LinkDeleted && c.Index == 77 })
	if !w.IsGone(77) {
		t.Error("the deleted interface is not gone")
	}
}
