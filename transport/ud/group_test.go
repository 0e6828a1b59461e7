package ud

import (
	"net/netip"
	"testing"

	"github.com/fanfaremq/fanfare/rdma"
)

// A packet belongs to a group only if its whole destination MGID is the group's: other MGIDs have the same lower bits
// but another partition or scope, or belong to no group. docs/protocol §15.3.
func TestGroupOf(t *testing.T) {
	first := rdma.IPAddr(netip.MustParseAddr("239.20.0.0"))
	third := rdma.IPAddr(netip.MustParseAddr("239.20.0.2"))
	mgid := rdma.MGIDForIB(third, rdma.PortSpaceUDP, rdma.DefaultScope, rdma.DefaultPKey)
	all := &memberships{base: lowWord(first), receivers: []*member{nil, {}, {mgid: mgid}, nil}}
	if g, ok := all.find(&mgid); g != 2 || !ok {
		t.Errorf("the group itself: %d, %v, want 2", g, ok)
	}
	for what, other := range map[string]rdma.GID{
		"another partition":     rdma.MGIDForIB(third, rdma.PortSpaceUDP, rdma.DefaultScope, 0x8001),
		"another scope":         rdma.MGIDForIB(third, rdma.PortSpaceUDP, rdma.DefaultScope+1, rdma.DefaultPKey),
		"RoCE's":                rdma.MGIDForRoCE(third, rdma.GIDTypeRoCEv2),
		"other upper bits":      {0: 0xff, 12: mgid[12] ^ 0xf0, 13: mgid[13], 14: mgid[14], 15: mgid[15]},
		"a group that was left": rdma.MGIDForIB(rdma.IPAddr(netip.MustParseAddr("239.20.0.1")), rdma.PortSpaceUDP, rdma.DefaultScope, rdma.DefaultPKey),
		"a group never joined":  rdma.MGIDForIB(first, rdma.PortSpaceUDP, rdma.DefaultScope, rdma.DefaultPKey),
		"beyond the range":      rdma.MGIDForIB(rdma.IPAddr(netip.MustParseAddr("239.20.0.4")), rdma.PortSpaceUDP, rdma.DefaultScope, rdma.DefaultPKey),
		"below the range":       rdma.MGIDForIB(rdma.IPAddr(netip.MustParseAddr("239.19.255.255")), rdma.PortSpaceUDP, rdma.DefaultScope, rdma.DefaultPKey),
	} {
		if g, ok := all.find(&other); ok {
			t.Errorf("%s (%v) counts as group %d", what, other, g)
		}
	}
}
