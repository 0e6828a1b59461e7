package fabric

import "github.com/fanfaremq/fanfare/rdma"

// Switch forwards datagrams. The switches form a star: the first is the spine, to which the others are connected.
type Switch struct {
	f     *Fabric
	index int
	ports []*Port // ports of hosts
	// table is the multicast table: the links to which a group is forwarded.
	table map[groupKey][]link
}

// groupKey identifies a group in a switch: the MLID, or the Ethernet address, which several IP groups can have.
type groupKey struct {
	mlid rdma.LID
	mac  [6]byte
}

// link is a link of a switch: to a port of a host, or to another switch.
type link struct {
	port *Port
	sw   *Switch
}

func newSwitch(f *Fabric, index int) *Switch {
	return &Switch{f: f, index: index, table: map[groupKey][]link{}}
}

// forward sends a packet to all links of its group except the one on which it arrived. The caller holds Fabric.mu and
// keeps its reference.
func (s *Switch) forward(p *packet, from link) {
	links, known := s.table[p.key]
	if s.f.cfg.Flavor == RoCE && s.f.cfg.FloodMulticast {
		links, known = s.all(), true
	}
	if !known {
		if from.port != nil { // only at the first switch, because others have only a part of the tree
			s.f.stats.NoPath++
		}
		return
	}
	for _, l := range links {
		if l == from {
			continue
		}
		p.refs++
		if l.sw != nil {
			s.f.schedule(s.f.cfg.Latency, action{pkt: p, sw: l.sw, from: link{sw: s}})
		} else {
			s.f.toPort(p, l.port)
		}
	}
}

// all returns all links of the switch.
func (s *Switch) all() []link {
	var links []link
	for _, p := range s.ports {
		links = append(links, link{port: p})
	}
	return append(links, s.trunks()...)
}

// trunks returns the links to other switches.
func (s *Switch) trunks() []link {
	if s.index > 0 {
		return []link{{sw: s.f.switches[0]}}
	}
	var links []link
	for _, o := range s.f.switches[1:] {
		links = append(links, link{sw: o})
	}
	return links
}

// program computes the tables of all switches for a group with these members, and installs them after the programming
// delay. The caller holds mu.
func (f *Fabric) program(key groupKey, members []*Port) {
	tables := make([][]link, len(f.switches))
	on := make([]int, len(f.switches)) // members on each switch
	for _, p := range members {
		on[p.sw.index]++
		tables[p.sw.index] = append(tables[p.sw.index], link{port: p})
	}
	for _, s := range f.switches {
		// An InfiniBand tree contains the switches with members and the spine. Ethernet switches without members also forward
		// to the others, as snooping switches do towards the querier.
		inTree := on[s.index] > 0 || s.index == 0 || f.cfg.Flavor == RoCE
		for _, t := range s.trunks() {
			beyond := len(members) - on[s.index]
			if s.index == 0 {
				beyond = on[t.sw.index]
			}
			if inTree && beyond > 0 {
				tables[s.index] = append(tables[s.index], t)
			}
		}
	}
	apply := func() {
		for i, s := range f.switches {
			if len(tables[i]) == 0 {
				delete(s.table, key)
			} else {
				s.table[key] = tables[i]
			}
		}
	}
	if f.cfg.ProgrammingDelay == 0 {
		apply()
		return
	}
	f.schedule(f.cfg.ProgrammingDelay, action{timer: &timer{func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		apply()
	}}})
}
