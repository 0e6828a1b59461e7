package soft

import (
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/fanfaremq/fanfare/rdma"
)

// PortState is the state of a port. A change replaces the whole state, so that the data path needs no lock.
type PortState struct {
	State       rdma.PortState
	LinkLayer   rdma.LinkLayer
	MTU         rdma.MTU
	LID, SMLID  rdma.LID
	GIDs        []rdma.GIDEntry
	PKeys       []rdma.PKey
	RateGbps    float64
	NetDev      string
	NetDevMTU   int // MTU of the Ethernet interface in bytes
	Addrs       []netip.Addr
	DefaultType rdma.GIDType // GID type of groups on RoCE
	// IPoIB is the interface over an InfiniBand port.
	IPoIB IPoIB
}

// IPoIB is the IP interface of an InfiniBand port.
type IPoIB struct {
	// Up: the broadcast group is joined, with record Broadcast. Otherwise no group can be joined.
	Up        bool
	Broadcast MCMember
	PKey      rdma.PKey
	Scope     uint8
}

// port is a port of a device.
type port struct {
	dev   *Device
	num   uint8
	state atomic.Pointer[PortState]

	// Guarded by Host.cm.
	groups   map[rdma.GID]*ibGroup
	ipGroups map[netip.Addr]int // numbers of memberships in IP groups

	badPKeys, qkeyViolations, dropped atomic.Uint64
}

// isRoCE is rdma_protocol_roce.
func (p *port) isRoCE() bool { return p.state.Load().LinkLayer == rdma.LinkLayerEthernet }

func (p *port) attr() rdma.PortAttr {
	s := p.state.Load()
	a := p.counts(s)
	a.Addrs = slices.Clone(s.Addrs)
	return a
}

// counts is attr without addresses. It does not allocate.
func (p *port) counts(s *PortState) rdma.PortAttr {
	return rdma.PortAttr{
		State: s.State, LinkLayer: s.LinkLayer, MaxMTU: 4096, ActiveMTU: s.MTU, LID: s.LID, SMLID: s.SMLID,
		GIDTableLen: s.gidTableLen(), PKeyTableLen: len(s.PKeys), RateGbps: s.RateGbps,
		NetDev:   s.NetDev,
		BadPKeys: p.badPKeys.Load(), QKeyViolations: p.qkeyViolations.Load(), Dropped: p.dropped.Load(),
	}
}

// gidTableLen returns the length of the table including empty entries.
func (s *PortState) gidTableLen() int {
	n := 0
	for i := range s.GIDs {
		n = max(n, s.GIDs[i].Index+1)
	}
	return n
}

// Bound reports whether an id is bound to an entry of a port's GID table, even if the entry is now empty.
func (d *Device) Bound(num uint8, index int) bool {
	d.host.cm.Lock()
	defer d.host.cm.Unlock()
	p := d.ports[num-1]
	return slices.ContainsFunc(d.host.ids, func(id *ID) bool { return id.port == p && id.sgidIndex == index })
}

// gid returns an entry of the GID table.
func (s *PortState) gid(index int) (rdma.GIDEntry, bool) {
	i := slices.IndexFunc(s.GIDs, func(e rdma.GIDEntry) bool { return e.Index == index })
	if i < 0 {
		return rdma.GIDEntry{}, false
	}
	return s.GIDs[i], true
}

// gidIndexOf returns the index of the GID with the type, or -1.
func (s *PortState) gidIndexOf(g rdma.GID, typ rdma.GIDType) int {
	for _, e := range s.GIDs {
		if e.GID == g && e.Type == typ {
			return e.Index
		}
	}
	return -1
}

// owns reports whether g is in the port's GID table.
func (p *port) owns(g rdma.GID) bool {
	return slices.ContainsFunc(p.state.Load().GIDs, func(e rdma.GIDEntry) bool { return e.GID == g })
}

// pkeyIndexOf returns the index of a partition as ib_find_pkey does, preferring entries of full members (kernel
// core/device.c).
func (s *PortState) pkeyIndexOf(pkey rdma.PKey) int {
	limited := -1
	for i, k := range s.PKeys {
		if k == 0 || k.Base() != pkey.Base() {
			continue
		}
		if k.IsFull() {
			return i
		}
		if limited < 0 {
			limited = i
		}
	}
	return limited
}

// pkey returns the P_Key at an index, or 0, which is invalid, if there is none.
func (s *PortState) pkey(index uint16) rdma.PKey {
	if int(index) >= len(s.PKeys) {
		return 0
	}
	return s.PKeys[index]
}
