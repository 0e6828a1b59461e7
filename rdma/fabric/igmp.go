package fabric

import (
	"slices"

	"github.com/fanfaremq/fanfare/rdma"
)

// snooped is an interface from which a snooping switch has received reports for groups with one Ethernet address.
type snooped struct {
	port   *Port
	groups int
}

// report sends an IGMP report of an interface, which reaches all switches. The caller holds mu.
func (f *Fabric) report(p *Port, gid rdma.GID) {
	f.record(p, Record{Kind: IGMPReport, MGID: gid})
	f.snoop(p, gid, 1)
}

// snoop adds change to the number of groups of an interface with this MAC, and programs the switches. The caller holds
// mu.
func (f *Fabric) snoop(p *Port, gid rdma.GID, change int) {
	mac, _ := gid.MulticastMAC()
	list := f.snooped[mac]
	i := slices.IndexFunc(list, func(s snooped) bool { return s.port == p })
	if i < 0 {
		i = len(list)
		list = append(list, snooped{port: p})
	}
	if list[i].groups += change; list[i].groups <= 0 {
		list = slices.Delete(list, i, i+1)
	}
	if f.snooped[mac] = list; len(list) == 0 {
		delete(f.snooped, mac)
	}
	members := make([]*Port, len(list))
	for i, s := range list {
		members[i] = s.port
	}
	f.program(groupKey{mac: mac}, members)
}
