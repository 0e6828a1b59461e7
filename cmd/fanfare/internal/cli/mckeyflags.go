package cli

import (
	"net/netip"
	"strings"

	"github.com/fanfaremq/fanfare/rdma"
)

func mckeyCommand() command {
	return command{
		name:    "mckey",
		summary: "join an RDMA multicast group, and send or receive: test an RDMA fabric",
		usage: []string{
			"fanfare mckey -t URL [flags]        receive",
			"fanfare mckey -t URL -s [flags]     send",
			"fanfare mckey -t sim:// [flags]     both, on a simulated subnet",
		},
		about: `It is the counterpart of rdma-core's mckey, which can be the other side. The
receiver ends when it has as many messages as -C says on each connection. Start it
first: UD multicast does not repeat what nobody heard.
`,
		notes: `Each connection tells of the join what RDMA CM's event says (MGID, MLID, Q_Key,
QPN), and of the first 20 messages length, immediate, and QPN and GID they came
from. A sender puts its QPN into the immediate, as the original does.
`,
		examples: []string{
			"fanfare mckey -t sim://",
			"fanfare mckey -t 'sim://?flavor=roce' -o -C 100 -json",
			"fanfare mckey -t roce://eth0 -m 239.1.2.3",
			"fanfare mckey -t roce://eth0 -m 239.1.2.3 -s -o",
		},
		exits: []word{
			{"3", "the group was not joined, or its membership was lost"},
			{"4", "messages came that have another length than -S says, or whose immediate is not the QPN they came from"},
			{"5", "no such device, or no RDMA on this host"},
		},
		exitNotes: `It is 0 for a receiver when all came, and 1 when some were missing at the end of
-timeout. A sender's 0 says that all were sent, not that anybody heard them.
`,
		flags: flagsOf(func() *mckey { return new(mckey) }),
	}
}

func (m *mckey) register(fs *flagSet) {
	stringVar(fs, &m.url, "t", "", "the fabric by its `URL`.\n"+
		"sim:// simulates two hosts on an InfiniBand subnet in this process (options flavor=roce, mtu, switches, latency=5us, "+
		"loss=0.1, dup, reorder, seed=1, sendonly=off, mlids).\n"+
		"roce://eth0 is RoCEv2 over plain sockets, rdma://mlx5_0 is rdma-core (in programs built with -tags rdma). A device is named "+
		"by itself, its interface or its address; without a name: the first active")
	stringVar(fs, &m.groupText, "m", mckeyGroup, "IP address of the `GROUP`")
	stringVar(fs, &m.mgid, "M", "", "the group by its `MGID`, as it is (InfiniBand only); 0: a new one that the subnet manager makes up, "+
		"and that is printed. The original wants -b with it; here -t names the port already")
	stringVar(fs, &m.bindText, "b", "", "IP `ADDRESS` of this host to use, instead of the first of the device")
	boolVar(fs, &m.send, "s", "send, and do not receive")
	boolVar(fs, &m.sendOnly, "o", "join as send-only full member: can be heard, never hears")
	intVar(fs, &m.connections, "c", 1, "`N` connections: queue pairs that join the group, at most 64 and what the device attaches to "+
		"a group (Soft-RoCE: 56)")
	countVar(fs, &m.count, "C", mckeyCount, "`COUNT` messages to send on each connection, or to wait for on each")
	intVar(fs, &m.size, "S", mckeySize, "`BYTES` in a message, at most the port's MTU")
	rateVar(fs, &m.rate, "rate", "send at most `N` messages a second on each connection; 0, the default: no limit. A receiver holds up "+
		"to 1024 in its queue")
	durationVar(fs, &m.timeout, "timeout", mckeyTimeout, "how long to wait for all joins, and then as long again for all messages, after -settle")
	durationVar(fs, &m.settling, "settle", mckeySettling, "how long to wait from the join to the first message sent, while switches learn of "+
		"members; on sim:// 0 unless given")
	boolVar(fs, &m.json, "json", "results as JSON objects on standard output")
	boolVar(fs, &m.quiet, "q", "nothing on standard output but what -json writes")
}

func (m *mckey) check(fs *flagSet, operands []string) error {
	scheme, _, _ := strings.Cut(m.url, ":")
	m.sim = strings.EqualFold(scheme, "sim")
	switch {
	case len(operands) > 0:
		return usagef("mckey takes no arguments: %q is too many", operands[0])
	case m.url == "":
		return usagef("name the fabric with -t: sim:// simulates one in this process, others are %s", schemesWithout("sim"))
	case fs.isSet("m") && fs.isSet("M"):
		return usagef("-m and -M both name the group: give one of them")
	case m.connections < 1 || m.connections > mckeyMaxConns:
		return usagef("-c %d must be from 1 to %d", m.connections, mckeyMaxConns)
	case m.count < 1:
		return usagef("-C 0 is no message: it must be 1 or more")
	case m.count > mckeyMaxCount:
		return usagef("-C %d is too many: it must be at most %d", m.count, uint64(mckeyMaxCount))
	case m.size < 0 || m.size > 4096:
		return usagef("-S %d must be from 0 to 4096 bytes, the largest RDMA MTU", m.size)
	case m.timeout <= 0:
		return usagef("-timeout %v must be more than 0", m.timeout)
	case m.settling < 0:
		return usagef("-settle %v must not be negative", m.settling)
	case m.sim && m.send:
		return usagef("-s is for networks: on sim:// both sides run in this process")
	case m.sim && m.bindText != "":
		return usagef("-b is for networks: hosts on sim:// have addresses of their own")
	case m.sendOnly && !m.send && !m.sim:
		return usagef("-o is how a sender joins: give -s too")
	}
	if m.sim && !fs.isSet("settle") {
		m.settling = 0 // its switches know of a join when its event comes
	}
	if err := m.parseGroup(fs.isSet("M")); err != nil {
		return err
	}
	if m.bindText != "" {
		a, err := rdma.ParseAddr(m.bindText)
		if err != nil || a.IP.IsMulticast() || a.IsWildcard() {
			return usagef("-b %q must be an IP address of this host", m.bindText)
		}
		m.bind = a
	}
	return nil
}

func (m *mckey) parseGroup(unmapped bool) error {
	if !unmapped {
		ip, err := netip.ParseAddr(m.groupText)
		if err != nil || !ip.Unmap().IsMulticast() {
			return usagef("-m %q must be a multicast address such as %s", m.groupText, mckeyGroup)
		}
		m.group = rdma.IPAddr(ip)
		return nil
	}
	if m.mgid == "0" {
		m.group = rdma.IBAddr(rdma.GID{})
		return nil
	}
	gid, err := rdma.ParseGID(m.mgid)
	if err != nil || !gid.IsMulticast() {
		return usagef("-M %q must be an MGID such as ff12:4001:ffff::f01:203, or 0 for one that the subnet manager makes up", m.mgid)
	}
	m.group = rdma.IBAddr(gid)
	return nil
}
