package doctor

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/fanfaremq/fanfare/rdma"
)

const classRDMA = "sys/class/infiniband"

// rdma checks devices and ports (kernel Documentation/ABI/stable/sysfs-class-infiniband).
func (c *check) rdma() {
	devices := c.list(classRDMA)
	if len(devices) == 0 {
		fix := "" // Soft-RoCE needs a network interface
		if link := c.someLink(); link != "" {
			fix = "modprobe rdma_rxe && rdma link add rxe0 type rxe netdev " + link
		}
		c.add("rdma", Info, fix,
			"no RDMA device: udp:// and roce:// work without one, and Soft-RoCE provides one for rdma:// on a network interface")
		return
	}
	for _, dev := range devices {
		for _, port := range c.list(classRDMA + "/" + dev + "/ports") {
			c.each(func() { c.port(dev, port) })
		}
		c.each(func() { c.multicast(dev) })
	}
	if c.blind = false; !c.exists("dev/infiniband/rdma_cm") {
		c.add("rdma", Fail, "modprobe rdma_ucm", "/dev/infiniband/rdma_cm is missing: joining a group requires the RDMA connection manager")
	}
}

func (f *Facts) RDMADevices() map[string][]string {
	c := &check{Facts: f}
	devices := make(map[string][]string)
	for _, dev := range c.list(classRDMA) {
		devices[dev] = nil
		for _, port := range c.list(classRDMA + "/" + dev + "/ports") {
			if link := c.netdev(dev, port); link != "" {
				devices[dev] = append(devices[dev], link)
			}
		}
	}
	return devices
}

func (c *check) port(dev, num string) {
	dir := classRDMA + "/" + dev + "/ports/" + num
	name := dev + " port " + num
	layer, _ := c.read(dir + "/link_layer")
	state, _ := c.read(dir + "/state") // "4: ACTIVE"
	_, stateName, _ := strings.Cut(state, ": ")
	rate, _ := c.read(dir + "/rate") // "100 Gb/sec (4X EDR)"
	link := c.netdev(dev, num)
	switch {
	case stateName == "ACTIVE":
		if link != "" {
			rate += ", interface " + link
		}
		c.add("rdma", OK, "", "%s is active: %s, %s", name, layer, rate)
	case layer == "InfiniBand" && stateName == "INIT":
		c.add("rdma", Fail, "systemctl start opensm", "%s is in state INIT: the cable is fine, but no subnet manager has set the port up", name)
	case link != "" && layer == "Ethernet":
		c.add("rdma", Fail, "ip link set "+link+" up", "%s is in state %s: its interface %s is down or has no cable", name, stateName, link)
	default:
		c.add("rdma", Fail, "ibstat "+dev, "%s is in state %s: check cable, module and switch port", name, stateName)
	}
	if layer == "InfiniBand" {
		c.infiniband(name, dir, link)
	} else {
		c.roce(name, dir, link)
	}
}

// netdev is the network interface of a port: on RoCE the one of its GIDs, on InfiniBand the
// device's IPoIB interface; "" if there is none.
func (c *check) netdev(dev, port string) string {
	dir := classRDMA + "/" + dev
	ndevs := dir + "/ports/" + port + "/gid_attrs/ndevs"
	for _, i := range c.list(ndevs) {
		if name, ok := c.read(ndevs + "/" + i); ok && name != "" {
			return name
		}
	}
	num, _ := strconv.Atoi(port)
	for _, link := range c.list(dir + "/device/net") {
		// dev_id, or dev_port in newer kernels, counts ports from 0
		id, _ := c.number("sys/class/net/" + link + "/dev_id")
		if p, ok := c.number("sys/class/net/" + link + "/dev_port"); ok {
			id = max(id, p)
		}
		if int(id) == num-1 {
			return link
		}
	}
	return ""
}

// infiniband checks what a join requires on InfiniBand: a subnet manager, and an IPoIB interface that is up, because
// RDMA CM uses P_Key, Q_Key, rate and MTU of its broadcast group (kernel core/cma.c, cma_join_ib_multicast).
func (c *check) infiniband(name, dir, link string) {
	if lid, ok := c.number(dir + "/sm_lid"); ok && lid == 0 {
		c.add("rdma", Fail, "systemctl start opensm", "%s has no subnet manager: joins get no answer", name)
	}
	if link == "" {
		c.add("rdma", Fail, "modprobe ib_ipoib", "%s has no IPoIB interface: joins fail with EADDRNOTAVAIL", name)
		return
	}
	flags, _ := c.number("sys/class/net/" + link + "/flags")
	addrs := c.Addrs[link]
	switch {
	case flags&1 == 0: // IFF_UP in linux/if.h
		c.add("rdma", Fail, "ip link set "+link+" up", "%s: its IPoIB interface %s is down: joins fail with EADDRNOTAVAIL", name, link)
	case len(addrs) == 0:
		c.add("rdma", Fail, "ip address add 192.168.0.1/24 dev "+link, "%s: its IPoIB interface %s has no address, which RDMA CM needs to find the port", name, link)
	default:
		c.add("rdma", OK, "", "%s: IPoIB interface %s is up with address %v", name, link, addrs[0])
	}
}

// roce searches the GID that multicast is sent with: RoCE v2, IPv4.
func (c *check) roce(name, dir, link string) {
	total := 0
	for _, i := range c.list(dir + "/gids") {
		text, _ := c.read(dir + "/gids/" + i)
		gid, err := rdma.ParseGID(text)
		if err != nil || gid.IsZero() {
			continue
		}
		total++
		typ, _ := c.read(dir + "/gid_attrs/types/" + i)
		if gid.IsV4Mapped() && typ == "RoCE v2" {
			c.add("rdma", OK, "", "%s: GID %s is %v, RoCE v2", name, i, gid)
			return
		}
	}
	fix := "ip -br address"
	if link != "" {
		fix = "ip address add 192.168.0.1/24 dev " + link
	}
	c.add("rdma", Fail, fix,
		"%s has no RoCE v2 GID with an IPv4 address among its %d: RDMA CM joins only IPv4 groups on RoCE", name, total)
}

// multicast reports the multicast limits of a device from rdma-core.
func (c *check) multicast(dev string) {
	if c.Verbs == nil {
		c.add("rdma", Info, "ibv_devinfo -v -d "+dev+" | grep mcast", "%s: multicast limits are unknown: %v", dev, c.VerbsErr)
		return
	}
	attr, err := deviceAttr(c.Verbs, dev)
	switch {
	case err != nil:
		c.add("rdma", Fail, "ibv_devinfo -v -d "+dev, "%s cannot be opened: %v", dev, err)
	case attr.MaxMcastGrp == 0:
		c.add("rdma", Fail, "", "%s does not support multicast (max_mcast_grp is 0): use udp:// on its interface", dev)
	case attr.MaxMcastGrp < 16:
		c.add("rdma", Warn, "", "%s: queue pairs can be attached to only %d groups, fewer than the default 16 of a bus: set groups=%d in the URL", dev, attr.MaxMcastGrp, attr.MaxMcastGrp)
	default:
		c.add("rdma", OK, "", "%s: up to %d groups, %d queue pairs per group, %d attachments in total", dev, attr.MaxMcastGrp, attr.MaxMcastQPAttach, attr.MaxTotalMcastQPAttach)
	}
}

func deviceAttr(p rdma.Provider, name string) (rdma.DeviceAttr, error) {
	dev, err := p.OpenDevice(name)
	if err != nil {
		return rdma.DeviceAttr{}, err
	}
	defer dev.Close()
	attr, err := dev.Attr()
	if err != nil {
		return attr, fmt.Errorf("query: %w", err)
	}
	return attr, nil
}
