package doctor

import "strings"

// Environment names what prevents multicast between hosts here, such as a cloud; empty: nothing known.
func (f *Facts) Environment() string {
	c := &check{Facts: f}
	cloud := c.cloud().name
	c.blind = false
	kind, own := c.container()
	if kind == "" || !own || c.blind {
		return cloud
	}
	if cloud != "" {
		cloud = ", in " + cloud
	}
	return kind + " container with its own network" + cloud
}

// overlay creates a VXLAN, which copies multicast to each host where the network does not carry it (bridge(8),
// ip-link(8)).
const overlay = "ip link add vxlan0 type vxlan id 42 dstport 4789 local ADDRESS && ip link set vxlan0 up && ip address add 192.168.42.1/24 dev vxlan0 && " +
	"bridge fdb append 00:00:00:00:00:00 dev vxlan0 dst OTHER-HOST   # once for each other host; then use iface=vxlan0 in the URL"

func (f *Facts) Surroundings() []Finding {
	c := &check{Facts: f}
	c.environment()
	return c.findings
}

// environment detects containers, and clouds with networks that do not carry multicast.
func (c *check) environment() {
	switch kind, own := c.container(); {
	case kind == "":
	case own && kind == "Kubernetes":
		c.add("network", Warn, "hostNetwork: true   # in the pod's spec; or a second interface by Multus with macvlan",
			"this pod has its own network: multicast does not reach other hosts, unless the cluster's network plugin supports it, which most do not")
	case own:
		c.add("network", Warn, "docker run --network host ...   # or a docker network with the driver macvlan",
			"this %s container has its own network: multicast does not reach other hosts, only containers on the same bridge", kind)
	default:
		c.add("network", Info, "", "this %s container uses the network of its host: the findings are those of the host", kind)
	}
	c.blind = false
	if cloud := c.cloud(); cloud.name != "" {
		c.add("network", Warn, overlay, "this is a machine in %s: its network does not carry multicast between hosts, use %s", cloud.name, cloud.instead())
	}
}

// container returns the kind of container, and whether it has its own network, in which no interface is a device.
func (c *check) container() (kind string, own bool) {
	cgroup, _ := c.read("proc/1/cgroup")
	for _, sign := range []struct{ kind, file, cgroup string }{
		{"Kubernetes", "var/run/secrets/kubernetes.io", "kubepods"},
		{"Podman", "run/.containerenv", "libpod"},
		{"Docker", ".dockerenv", "docker"},
		{"containerd", "", "containerd"},
		{"LXC", "", "/lxc"},
	} {
		if sign.file != "" && c.exists(sign.file) || strings.Contains(cgroup, sign.cgroup) {
			kind = sign.kind
			break
		}
	}
	own = true
	for _, name := range c.list("sys/class/net") {
		if c.exists("sys/class/net/" + name + "/device") {
			own = false
		}
	}
	return kind, own
}

// clouds are recognized by the machine's DMI data (kernel Documentation/ABI/testing/sysfs-firmware-dmi-tables).
var clouds = []cloud{
	{name: "Amazon EC2", file: "sys_vendor", wantText: "Amazon EC2", service: "a Transit Gateway with a multicast domain"},
	{name: "Google Cloud", file: "product_name", wantText: "Google Compute Engine", service: "its multicast service for VPC networks"},
	{name: "Microsoft Azure", file: "chassis_asset_tag", wantText: "7783-7084-3265-9085-8269-3286-77"},
	{name: "Oracle Cloud", file: "chassis_asset_tag", wantText: "OracleCloud.com"},
	{name: "Alibaba Cloud", file: "sys_vendor", wantText: "Alibaba Cloud"},
	{name: "DigitalOcean", file: "sys_vendor", wantText: "DigitalOcean"},
	{name: "Hetzner Cloud", file: "sys_vendor", wantText: "Hetzner"},
	{name: "Akamai Cloud", file: "sys_vendor", wantText: "Linode"},
}

type cloud struct {
	name, file, wantText string
	// service is the cloud's own multicast, empty if it has none. All of them use IGMP version 2 only
	// (https://docs.aws.amazon.com/vpc/latest/tgw/how-multicast-works.html,
	// https://docs.cloud.google.com/vpc/docs/multicast/overview).
	service string
}

func (c *cloud) instead() string {
	all := "an overlay that copies to each host (VXLAN), or a broker such as NATS"
	if c.service != "" {
		all = c.service + ", " + all
	}
	return all
}

// cloud returns the cloud of this machine; its name is empty if unknown.
func (c *check) cloud() cloud {
	for _, cloud := range clouds {
		if text, _ := c.read("sys/class/dmi/id/" + cloud.file); strings.TrimSpace(text) == cloud.wantText {
			return cloud
		}
	}
	return cloud{}
}
