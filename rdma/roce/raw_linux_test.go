package roce

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"golang.org/x/net/bpf"

	"github.com/fanfaremq/fanfare/rdma/internal/rocev2"
)

// A raw socket receives only packets to the RoCEv2 port of the device's addresses and groups, whatever options the IP
// header has.
func TestSelection(t *testing.T) {
	addrs := func(list ...string) (a []netip.Addr) {
		for _, s := range list {
			a = append(a, netip.MustParseAddr(s))
		}
		return a
	}
	own, groups := addrs("10.0.0.1", "10.0.0.2"), addrs("239.1.1.1")
	for _, c := range []struct {
		name            string
		own, groups     []netip.Addr
		all             bool
		accepts, ignore []netip.Addr
	}{
		{"own and groups", own, groups, false, addrs("10.0.0.1", "10.0.0.2", "239.1.1.1"), addrs("10.0.0.3", "239.1.1.2", "255.255.255.255")},
		{"all groups", own, nil, true, addrs("10.0.0.1", "224.0.0.1", "239.255.255.255"), addrs("10.0.0.3", "223.255.255.255", "240.0.0.0", "255.255.255.255")},
		{"nothing", nil, nil, false, nil, addrs("10.0.0.1", "239.1.1.1")},
	} {
		vm, err := bpf.NewVM(selection(c.own, c.groups, c.all))
		must(t, c.name, err)
		accepts := func(dst netip.Addr, words int, port uint16) bool {
			t.Helper()
			b := make([]byte, words*4+8+32)
			b[0] = 0x40 | byte(words)
			copy(b[16:], dst.AsSlice())
			binary.BigEndian.PutUint16(b[words*4+2:], port)
			n, err := vm.Run(b)
			must(t, c.name, err)
			if n != 0 && n < len(b) {
				t.Errorf("%s: the filter keeps %d of %d bytes, want none or all", c.name, n, len(b))
			}
			return n > 0
		}
		for words := 5; words <= 15; words++ {
			for _, a := range c.accepts {
				if !accepts(a, words, rocev2.Port) || accepts(a, words, rocev2.Port+1) {
					t.Errorf("%s: %v, header of %d words: not accepted, or accepted for another port", c.name, a, words)
				}
			}
			for _, a := range c.ignore {
				if accepts(a, words, rocev2.Port) {
					t.Errorf("%s: %v with a header of %d words is accepted", c.name, a, words)
				}
			}
		}
	}
}
