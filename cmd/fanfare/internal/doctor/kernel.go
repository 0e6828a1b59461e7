package doctor

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

const rocePortHex = ":12B7" // UDP port 4791 in the format of /proc/net/udp

// rocePort checks the UDP port of RoCEv2: Soft-RoCE does not share it, and RoCE adapters intercept its packets.
func (c *check) rocePort() {
	inUse := false
	for _, file := range []string{"proc/net/udp", "proc/net/udp6"} {
		text, _ := c.read(file)
		for _, line := range strings.Split(text, "\n") {
			if f := strings.Fields(line); len(f) > 1 && strings.HasSuffix(f[1], rocePortHex) {
				inUse = true
			}
		}
	}
	switch {
	case c.exists("sys/module/rdma_rxe") && inUse:
		c.add("roce", Info, "modprobe -r rdma_rxe", "Soft-RoCE (rdma_rxe) is loaded and occupies UDP port 4791: use rdma:// on this host; roce:// cannot receive")
	case inUse:
		c.add("roce", Info, "ss -ulpn sport = :4791", "UDP port 4791 is in use: roce:// can share it only with other programs of Fanfare")
	default:
		c.add("roce", OK, "", "UDP port 4791 is free for roce://")
	}
	c.blind = false
	for _, dev := range c.list(classRDMA) {
		for _, port := range c.list(classRDMA + "/" + dev + "/ports") {
			c.blind = false
			layer, _ := c.read(classRDMA + "/" + dev + "/ports/" + port + "/link_layer")
			if link := c.netdev(dev, port); layer == "Ethernet" && link != "" && !strings.HasPrefix(dev, "rxe") && !strings.HasPrefix(dev, "siw") {
				c.add("roce", Info, "", "%s implements RoCE in hardware, so roce://%s would receive nothing: use rdma://%s", dev, link, dev)
			}
		}
	}
}

// enoughMemlock is the memory that a bus over RDMA registers, with a margin: a receive queue of
// 4096 slots of 40 and 4096 bytes, and send windows.
const enoughMemlock = 64 << 20

// capIPCLock exempts from the limit (capabilities(7)).
const capIPCLock = 14

func (c *check) memlock() {
	const fix = "ulimit -l unlimited   # permanently: '* - memlock unlimited' in /etc/security/limits.conf; LimitMEMLOCK=infinity for systemd; --ulimit memlock=-1 for docker"
	if len(c.list(classRDMA)) == 0 {
		return
	}
	switch {
	case c.MemlockBytes < 0:
		c.add("memory", OK, "", "locked memory has no limit")
	case c.capable(capIPCLock):
		c.add("memory", OK, "", "locked memory has a limit of %d bytes, which does not apply to this process (CAP_IPC_LOCK)", c.MemlockBytes)
	case c.MemlockBytes < enoughMemlock:
		c.add("memory", Fail, fix, "locked memory is limited to %d bytes, but a bus over RDMA registers up to %d", c.MemlockBytes, enoughMemlock)
	default:
		c.add("memory", OK, "", "locked memory is limited to %d bytes, enough for a bus", c.MemlockBytes)
	}
}

func (c *check) capable(bit uint) bool {
	status, _ := c.read("proc/self/status")
	for _, line := range strings.Split(status, "\n") {
		if hex, ok := strings.CutPrefix(line, "CapEff:"); ok {
			caps, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
			return err == nil && caps>>bit&1 == 1
		}
	}
	return false
}

func (c *check) libraries() {
	if len(c.list(classRDMA)) == 0 {
		return
	}
	if missing := slices.DeleteFunc([]string{"libibverbs.so.1", "librdmacm.so.1"}, c.hasLibrary); len(missing) > 0 {
		c.add("rdma", Warn, "apt install librdmacm1 libibverbs1 ibverbs-providers   # or: dnf install librdmacm libibverbs", "rdma-core is incomplete: rdma:// needs %s", strings.Join(missing, ", "))
		return
	}
	c.add("rdma", OK, "", "rdma-core is installed (libibverbs, librdmacm)")
}

func (c *check) hasLibrary(name string) bool {
	return slices.ContainsFunc([]string{"usr/lib64", "usr/lib", "lib64", "lib", "usr/local/lib"}, func(dir string) bool {
		return slices.ContainsFunc(append(c.list(dir), ""), func(sub string) bool { return c.exists(path.Join(dir, sub, name)) })
	})
}

// capNetAdmin exempts from the limits of socket buffers (socket(7), SO_RCVBUFFORCE).
const capNetAdmin = 12

func (c *check) buffers() {
	for _, b := range []struct {
		name, what string
		requested  int
	}{
		{"rmem_max", "receive", c.ReceiveBytes},
		{"wmem_max", "send", c.SendBytes},
	} {
		c.blind = false
		limit, ok := c.number("proc/sys/net/core/" + b.name)
		switch {
		case !ok || b.requested == 0:
		case limit >= int64(b.requested):
			c.add("buffers", OK, "", "net.core.%s of %d bytes is enough for the %s buffers of %d bytes", b.name, limit, b.what, b.requested)
		case c.capable(capNetAdmin):
			c.add("buffers", OK, "", "net.core.%s of %d bytes is less than the %s buffers of %d bytes, but does not apply to this process (CAP_NET_ADMIN)", b.name, limit, b.what, b.requested)
		default:
			c.add("buffers", Warn, fmt.Sprintf("sysctl -w net.core.%s=%d", b.name, b.requested),
				"net.core.%s allows %d bytes, but %s buffers request %d: this host may drop packets in bursts, which are then repaired", b.name, limit, b.what, b.requested)
		}
	}
}
