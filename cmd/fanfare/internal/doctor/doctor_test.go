package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/fabric"
)

// host reads a recording. rxe.txt is from a virtual machine with Soft-RoCE, made by testdata/record; the others are
// written from the kernel's documentation (Documentation/ABI/stable/sysfs-class-infiniband).
func host(t *testing.T, file string) *Facts {
	t.Helper()
	b, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	tree := fstest.MapFS{}
	for line := range strings.Lines(string(b)) {
		path, text, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		if !ok {
			t.Fatalf("%s: the line %q has no path", file, line)
		}
		if tree[path] == nil {
			tree[path] = &fstest.MapFile{}
		}
		tree[path].Data = append(tree[path].Data, text+"\n"...)
	}
	addrs := map[string]string{"eth0": "10.99.0.1", "enp1s0np0": "10.0.0.1", "ib0": "192.168.1.1", "lo": "127.0.0.1"}
	f := &Facts{Root: tree, Addrs: map[string][]netip.Addr{}, MemlockBytes: -1, ReceiveBytes: 8 << 20, SendBytes: 2 << 20, VerbsErr: errors.New("not in this build")}
	for link, a := range addrs {
		if tree["sys/class/net/"+link+"/flags"] != nil {
			f.Addrs[link] = []netip.Addr{netip.MustParseAddr(a)}
			if link != "lo" {
				f.Default = Link{Name: link, Addr: f.Addrs[link][0], Routed: true}
			}
		}
	}
	return f.seeLinks()
}

// seeLinks sets the network interfaces from the recording.
func (f *Facts) seeLinks() *Facts {
	c := &check{Facts: f}
	f.Links = nil
	for _, name := range c.list("sys/class/net") {
		bits, ok := c.number("sys/class/net/" + name + "/flags")
		if !ok {
			continue
		}
		mtu, _ := c.number("sys/class/net/" + name + "/mtu")
		link := net.Interface{Name: name, MTU: int(mtu)}
		for bit, flag := range map[int64]net.Flags{1: net.FlagUp, 8: net.FlagLoopback, 0x1000: net.FlagMulticast} { // linux/if.h
			if bits&bit != 0 {
				link.Flags |= flag
			}
		}
		f.Links = append(f.Links, link)
	}
	return f
}

// set changes files of a recording; "" removes a path and everything below it.
func (f *Facts) set(files map[string]string) *Facts {
	tree := f.Root.(fstest.MapFS)
	for path, text := range files {
		if text == "" {
			for p := range tree {
				if p == path || strings.HasPrefix(p, path+"/") {
					delete(tree, p)
				}
			}
			continue
		}
		tree[path] = &fstest.MapFile{Data: []byte(text + "\n")}
	}
	return f.seeLinks()
}

func text(findings []Finding) string {
	var b strings.Builder
	for _, f := range findings {
		fmt.Fprintf(&b, "%v: %s: %s [%s]\n", f.Level, f.Area, f.Text, f.Fix)
	}
	return b.String()
}

// Suitable hosts have no warnings and failures.
func TestSuitableHosts(t *testing.T) {
	for file, wants := range map[string][]string{
		"rxe.txt": {
			"ok: rdma: rxe0 port 1 is active: Ethernet, 2.5 Gb/sec (1X SDR), interface eth0",
			"ok: rdma: rxe0 port 1: GID 1 is ::ffff:10.99.0.1, RoCE v2",
			"info: roce: Soft-RoCE (rdma_rxe) is loaded and occupies UDP port 4791",
			"ok: network: interface eth0 is up for multicast with address 10.99.0.1, MTU 1500 (RDMA MTU 1024)",
			"ok: buffers: net.core.rmem_max of 212992 bytes is less than the receive buffers of 8388608 bytes, but does not apply to this process",
			"ok: network: udp:// without iface= uses eth0 (10.99.0.1), the interface of the route to multicast groups",
		},
		"mlx5-roce.txt": {
			"ok: rdma: mlx5_0 port 1 is active: Ethernet, 100 Gb/sec (4X EDR), interface enp1s0np0",
			"ok: rdma: mlx5_0 port 1: GID 3 is ::ffff:10.0.0.1, RoCE v2",
			"info: roce: mlx5_0 implements RoCE in hardware",
			"info: rdma: mlx5_0: multicast limits are unknown: not in this build [ibv_devinfo -v -d mlx5_0 | grep mcast]",
			"MTU 9000 (RDMA MTU 4096)",
			"ok: roce: UDP port 4791 is free",
			"ok: buffers: net.core.rmem_max of 16777216 bytes is enough",
		},
		"infiniband.txt": {
			"ok: rdma: mlx5_0 port 1 is active: InfiniBand, 200 Gb/sec (4X HDR), interface ib0",
			"ok: rdma: mlx5_0 port 1: IPoIB interface ib0 is up with address 192.168.1.1",
			"ok: rdma: rdma-core is installed",
			"ok: memory: locked memory has no limit",
		},
	} {
		findings := Check(host(t, file))
		for _, f := range findings {
			if f.Level > Info || f.Text == "" || f.Area == "" {
				t.Errorf("%s: finding %+v, want an area, a text and at most level info", file, f)
			}
		}
		for _, want := range append(wants, "info: security: groups are not sealed unless buses have keys= in their URL: any host on the network can read, forge and change all messages [fanfare key new FILE   # and add keys=FILE") {
			if !strings.Contains(text(findings), want) {
				t.Errorf("%s: no %q in\n%s", file, want, text(findings))
			}
		}
	}
}

// Each problem of a host yields exactly one finding, with a fix.
func TestUnsuitableHosts(t *testing.T) {
	const (
		mlx5 = "sys/class/infiniband/mlx5_0/ports/1"
		conf = "proc/sys/net/ipv4/conf/"
	)
	for _, c := range []struct {
		name, file    string
		change        func(*Facts)
		level         Level
		wantText, fix string
	}{
		{"no rdma_cm", "rxe.txt", func(f *Facts) { f.set(map[string]string{"dev/infiniband/rdma_cm": ""}) }, Fail, "rdma_cm is missing", "modprobe rdma_ucm"},
		{"RoCE port down", "mlx5-roce.txt", func(f *Facts) { f.set(map[string]string{mlx5 + "/state": "1: DOWN"}) }, Fail, "state DOWN: its interface enp1s0np0", "ip link set enp1s0np0 up"},
		{"no IPv4 GID", "mlx5-roce.txt", func(f *Facts) {
			f.set(map[string]string{mlx5 + "/gids/2": "", mlx5 + "/gids/3": ""})
		}, Fail, "no RoCE v2 GID with an IPv4 address among its 2", "ip address add 192.168.0.1/24 dev enp1s0np0"},
		{"RoCE v1 only", "mlx5-roce.txt", func(f *Facts) { f.set(map[string]string{mlx5 + "/gid_attrs/types/3": "IB/RoCE v1"}) }, Fail, "no RoCE v2 GID", "ip address"},
		{"IB port down", "infiniband.txt", func(f *Facts) {
			f.set(map[string]string{mlx5 + "/state": "1: DOWN"})
		}, Fail, "state DOWN: check cable", "ibstat mlx5_0"},
		{"no subnet manager yet", "infiniband.txt", func(f *Facts) { f.set(map[string]string{mlx5 + "/state": "2: INIT"}) }, Fail, "no subnet manager has set the port up", "opensm"},
		{"no subnet manager", "infiniband.txt", func(f *Facts) { f.set(map[string]string{mlx5 + "/sm_lid": "0x0"}) }, Fail, "joins get no answer", "opensm"},
		{"no IPoIB", "infiniband.txt", func(f *Facts) {
			f.set(map[string]string{"sys/class/infiniband/mlx5_0/device": ""})
		}, Fail, "EADDRNOTAVAIL", "modprobe ib_ipoib"},
		{"IPoIB down", "infiniband.txt", func(f *Facts) {
			f.set(map[string]string{"sys/class/net/ib0/flags": "0x1002", "sys/class/net/eth9/flags": "0x1003", "sys/class/net/eth9/mtu": "1500"})
			f.Addrs["eth9"] = f.Addrs["ib0"]
		}, Fail, "ib0 is down", "ip link set ib0 up"},
		{"IPoIB without address", "infiniband.txt", func(f *Facts) {
			f.set(map[string]string{"sys/class/net/eth9/flags": "0x1003", "sys/class/net/eth9/mtu": "1500"})
			f.Addrs["eth9"], f.Addrs["ib0"] = f.Addrs["ib0"], nil
		}, Fail, "ib0 has no address", "ip address add"},
		{"little locked memory", "mlx5-roce.txt", func(f *Facts) { f.MemlockBytes = 8 << 20 }, Fail, "limited to 8388608 bytes", "ulimit -l unlimited"},
		{"no rdma-core", "mlx5-roce.txt", func(f *Facts) { f.set(map[string]string{"usr/lib64/librdmacm.so.1": ""}) }, Warn, "rdma:// needs librdmacm.so.1", "apt install"},
		{"small receive buffers", "mlx5-roce.txt", func(f *Facts) { f.set(map[string]string{"proc/sys/net/core/rmem_max": "212992"}) }, Warn, "allows 212992 bytes", "sysctl -w net.core.rmem_max=8388608"},
		{"small send buffers", "mlx5-roce.txt", func(f *Facts) { f.set(map[string]string{"proc/sys/net/core/wmem_max": "212992"}) }, Warn, "send buffers request 2097152", "sysctl -w net.core.wmem_max=2097152"},
		{"strict filter", "mlx5-roce.txt", func(f *Facts) { f.set(map[string]string{conf + "all/rp_filter": "1"}) }, Warn, "reverse path", "rp_filter=2"},
		{"IGMP version 1", "mlx5-roce.txt", func(f *Facts) { f.set(map[string]string{conf + "all/force_igmp_version": "1"}) }, Warn, "version 1", "force_igmp_version=0"},
		{"old querier", "mlx5-roce.txt", func(f *Facts) {
			f.set(map[string]string{"proc/net/igmp": "Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n2\tenp1s0np0 :     1      V1"})
		}, Warn, "uses IGMP version 1", "tcpdump"},
		{"no memberships", "mlx5-roce.txt", func(f *Facts) { f.set(map[string]string{"proc/sys/net/ipv4/igmp_max_memberships": "0"}) }, Fail, "may join 0 groups", "igmp_max_memberships=20"},
		{"no multicast flag", "rxe.txt", func(f *Facts) {
			f.set(map[string]string{"sys/class/net/eth0/flags": "0x3", "sys/class/net/eth1/flags": "0x1003", "sys/class/net/eth1/mtu": "1500"})
			f.Addrs["eth1"] = f.Addrs["eth0"]
		}, Warn, "without its multicast flag", "ip link set eth0 multicast on"},
		{"loopback only", "rxe.txt", func(f *Facts) {
			delete(f.Addrs, "eth0")
			f.Default = Link{Name: "lo", Loopback: true}
		}, Warn, "only loopback is up", "ip address add 192.168.0.1/24 dev eth0"},
		{"loopback only, interface down", "rxe.txt", func(f *Facts) {
			f.set(map[string]string{"sys/class/net/eth0/flags": "0x1002"})
		}, Warn, "only loopback is up", "ip link set eth0 up"},
		{"not even loopback", "rxe.txt", func(f *Facts) {
			f.set(map[string]string{"sys/class/net/eth0/flags": "0x1002"})
			f.Default, f.DefaultErr = Link{}, errors.New("nothing is up")
		}, Warn, "including loopback, is up for multicast: udp:// cannot be used: nothing is up", "ip link set lo up"},
		{"a route to an interface without multicast", "rxe.txt", func(f *Facts) {
			f.Default.Routed, f.Default.RouteTo = false, "tun0"
		}, Warn, "leads to tun0, which cannot be used for multicast: udp:// without iface= uses eth0", "ip route replace 224.0.0.0/4 dev eth0"},
		{"IPv6 only", "rxe.txt", func(f *Facts) {
			f.Addrs["eth0"] = []netip.Addr{netip.MustParseAddr("fe80::1")}
			f.Default = Link{Name: "lo", Loopback: true}
		}, Warn, "uses loopback (lo)", "ip address add 192.168.0.1/24 dev eth0"},
		{"none at all", "rxe.txt", func(f *Facts) { f.Default, f.DefaultErr = Link{}, errors.New("nothing is up") }, Warn, "cannot be used: nothing is up", ""},
		{"no route, and a choice", "rxe.txt", func(f *Facts) {
			f.set(map[string]string{"sys/class/net/eth1/flags": "0x1003", "sys/class/net/eth1/mtu": "1500"})
			f.Addrs["eth1"] = f.Addrs["eth0"]
			f.Default.Routed = false
		}, Warn, "uses eth0", "ip route add 224.0.0.0/4 dev eth0"},
		{"bridge without querier", "rxe.txt", func(f *Facts) {
			f.set(map[string]string{"sys/class/net/eth0/bridge/multicast_snooping": "1", "sys/class/net/eth0/bridge/multicast_querier": "0"})
		}, Warn, "is not a querier", "mcast_querier 1"},
		{"no multicast in the device", "rxe.txt", func(f *Facts) { f.Verbs = limited(t, 0) }, Fail, "does not support multicast", ""},
		{"few groups", "rxe.txt", func(f *Facts) { f.Verbs = limited(t, 8) }, Warn, "only 8 groups", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := host(t, c.file)
			c.change(f)
			if f.Verbs != nil {
				f.set(map[string]string{"sys/class/infiniband/sim0/ports": ""})
				f.Root.(fstest.MapFS)["sys/class/infiniband/sim0/node_type"] = &fstest.MapFile{}
				f.set(map[string]string{"sys/class/infiniband/rxe0": ""})
			}
			var bad []Finding
			for _, x := range Check(f) {
				if x.Level > Info {
					bad = append(bad, x)
				}
			}
			if len(bad) != 1 || bad[0].Level != c.level || !strings.Contains(bad[0].Text, c.wantText) || !strings.Contains(bad[0].Fix, c.fix) {
				t.Errorf("want one finding, %v with %q and fix %q; got\n%s", c.level, c.wantText, c.fix, text(bad))
			}
		})
	}
}

// IGMP versions and packet filters are reported, also if they are unknown.
func TestIGMPAndFilters(t *testing.T) {
	for _, c := range []struct {
		files  map[string]string
		tables []string
		err    error
		want   string
	}{
		{nil, nil, nil, "ok: network: enp1s0np0 uses IGMP version 3 (no querier of an older version detected)"},
		{map[string]string{"proc/sys/net/ipv4/conf/enp1s0np0/force_igmp_version": "2"}, nil, nil, "uses IGMP version 2 (set by force_igmp_version)"},
		{map[string]string{"proc/net/igmp": "Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n2\tenp1s0np0 :     1      V2"}, nil, nil, "uses IGMP version 2 (like the querier on its network)"},
		{map[string]string{"proc/net/igmp": "Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n2\tenp1s0np0:     1      V2"}, nil, nil, "uses IGMP version 2 (like the querier on its network)"},
		{map[string]string{"sys/class/dmi/id/sys_vendor": "Amazon EC2"}, nil, nil, "but multicast in Amazon EC2 supports only version 2: joins of this host have no effect there [sysctl -w net.ipv4.conf.enp1s0np0.force_igmp_version=2]"},
		{nil, []string{"inet filter"}, nil, "packet filters are loaded (nftables: inet filter)"},
		{nil, nil, errors.New("operation not permitted"), "rules of nftables are unknown: operation not permitted"},
	} {
		f := host(t, "mlx5-roce.txt")
		f.set(c.files)
		f.Filters = func() ([]string, error) { return c.tables, c.err }
		if got := text(Check(f)); !strings.Contains(got, c.want) {
			t.Errorf("no %q in\n%s", c.want, got)
		}
	}
}

// denied is a file system in which one path, or every path if it is "", cannot be opened.
type denied struct {
	fs.FS
	path string
	err  error
}

func (d denied) Open(name string) (fs.File, error) {
	if d.path == "" || name == d.path {
		return nil, &fs.PathError{Op: "open", Path: name, Err: d.err}
	}
	return d.FS.Open(name)
}

// Unreadable paths are reported as such; otherwise the findings are a subset of those with all paths readable.
func TestUnknown(t *testing.T) {
	check := func(f *Facts, root fs.FS) []Finding {
		f.Root = root
		return Check(f)
	}
	for _, file := range []string{"rxe.txt", "mlx5-roce.txt", "infiniband.txt"} {
		f := host(t, file).set(map[string]string{".dockerenv": "x", "sys/class/net/eth0/device/vendor": "x", "proc/net/igmp": "Idx", "proc/net/udp": "x", "proc/net/udp6": "x", "proc/1/cgroup": "x"})
		root := f.Root.(fstest.MapFS)
		fit := check(f, root)
		paths := map[string]bool{"": true}
		for p := range root {
			for ; p != "."; p = path.Dir(p) {
				paths[p] = true
			}
		}
		reported := make(map[string]bool)
		for p := range paths {
			for _, err := range []error{syscall.EMFILE, syscall.EACCES} {
				for _, x := range check(f, denied{root, p, err}) {
					if strings.HasPrefix(x.Text, "/"+p) && strings.HasSuffix(x.Text, " cannot be read: "+err.Error()) && x.Level == Info {
						reported[p] = true
					} else if !slices.Contains(fit, x) {
						t.Errorf("%s, %v: finding about %q is %s, want that the file cannot be read", file, err, p, text([]Finding{x}))
					}
				}
			}
		}
		for _, p := range []string{"", classRDMA, "dev/infiniband/rdma_cm", "proc/net/udp", "proc/sys/net", "sys/class/net"} {
			if !reported[p] {
				t.Errorf("%s: no finding reports that %q cannot be read", file, p)
			}
		}
	}
}

// limited is a provider whose device supports this number of groups.
func limited(t *testing.T, groups int) rdma.Provider {
	f := fabric.New(fabric.Config{})
	t.Cleanup(func() { f.Close() })
	return f.AddHost(fabric.HostConfig{Limits: func(a *rdma.DeviceAttr) { a.MaxMcastGrp = groups }})
}

// With rdma-core the limits are reported.
func TestLimits(t *testing.T) {
	f := host(t, "rxe.txt").set(map[string]string{"sys/class/infiniband/rxe0": "", "sys/class/infiniband/sim0/node_type": "1: CA"})
	f.Verbs = limited(t, 8192)
	if got, want := text(Check(f)), "ok: rdma: sim0: up to 8192 groups, 56 queue pairs per group, 458752 attachments in total"; !strings.Contains(got, want) {
		t.Errorf("no %q in\n%s", want, got)
	}
	f = host(t, "rxe.txt")
	f.Verbs = limited(t, 8192) // which has no rxe0
	if got := text(Check(f)); !strings.Contains(got, "fail: rdma: rxe0 cannot be opened") {
		t.Errorf("no failure in\n%s", got)
	}
}

// A host without RDMA is suitable, and so is one without /proc, as far as known.
func TestPlainHosts(t *testing.T) {
	f := host(t, "rxe.txt").set(map[string]string{"sys/class/infiniband": "", "sys/module/rdma_rxe": "", "dev": "", "usr": "", "lib": ""})
	f.MemlockBytes = 65536
	for _, f := range []*Facts{f, {Root: fstest.MapFS{}}} {
		findings := Check(f)
		for _, x := range findings {
			if x.Level > Info {
				t.Errorf("finding %+v, want at most level info", x)
			}
		}
		if !strings.Contains(text(findings), "no RDMA device") {
			t.Errorf("no finding about missing RDMA:\n%s", text(findings))
		}
	}
}

// ThisHost works on any host; its findings are only logged.
func TestThisHost(t *testing.T) {
	facts, err := ThisHost()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range Check(facts) {
		t.Logf("finding %v: %s: %s [%s]", x.Level, x.Area, x.Text, x.Fix)
		if x.Area == "" || x.Text == "" {
			t.Errorf("finding %+v lacks an area or a text", x)
		}
	}
}
