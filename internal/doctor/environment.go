package doctor

import "strings"

// Environment says in few words what this host is in that hinders multicast between
// hosts, such as a cloud; empty if nothing is known to.
func (f *Facts) Environment() string {
	c := &check{Facts: f}
	kind, own := c.container()
	cloud, _ := c.cloud()
	switch {
	case kind != "" && own && cloud != "":
		return kind + " container with its own network, in " + cloud
	case kind != "" && own:
		return kind + " container with its own network"
	}
	return cloud
}

// overlay is how multicast passes where the network carries none: a VXLAN copies it to
// each of the other hosts (bridge(8), ip-link(8)).
const overlay = "ip link add vxlan0 type vxlan id 42 dstport 4789 local ADDRESS && ip link set vxlan0 up && ip address add 192.168.42.1/24 dev vxlan0 && " +
	"bridge fdb append 00:00:00:00:00:00 dev vxlan0 dst OTHER-HOST   # once for each of them; then iface=vxlan0 in the URL"

// Surroundings says what the host is in that matters to multicast, and what to do.
func (f *Facts) Surroundings() []Finding {
	c := &check{Facts: f}
	c.environment()
	return c.findings
}

// environment looks for containers and clouds, whose networks carry no multicast.
func (c *check) environment() {
	switch kind, own := c.container(); {
	case kind == "":
	case own && kind == "Kubernetes":
		c.add("network", Warn, "hostNetwork: true   # in the pod's spec; or a second interface by Multus with macvlan",
			"this is a pod with a network of its own: multicast will not pass to other hosts, unless the cluster's network plugin carries it, which most do not")
	case own:
		c.add("network", Warn, "docker run --network host ...   # or a network of docker's driver macvlan",
			"this is a %s container with a network of its own: multicast will not pass to other hosts, only to containers on the same bridge", kind)
	default:
		c.add("network", Info, "", "this is a %s container with the network of its host: what holds for the host holds here", kind)
	}
	if cloud, instead := c.cloud(); cloud != "" {
		c.add("network", Warn, overlay, "this is a machine in %s, whose network carries no multicast from host to host: use %s", cloud, instead)
	}
}

// container says which kind of container this is, "" if none, and whether it has a
// network of its own: then no interface is a device.
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

// clouds are told by what the firmware says of the machine (kernel
// Documentation/ABI/testing/sysfs-firmware-dmi-tables).
var clouds = []struct{ name, file, says, instead string }{
	{"Amazon EC2", "sys_vendor", "Amazon EC2", "a Transit Gateway with a multicast domain, an overlay that copies to each host (VXLAN), or a broker such as NATS"},
	{"Google Cloud", "product_name", "Google Compute Engine", ""},
	{"Microsoft Azure", "chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77", ""},
	{"Oracle Cloud", "chassis_asset_tag", "OracleCloud.com", ""},
	{"Alibaba Cloud", "sys_vendor", "Alibaba Cloud", ""},
	{"DigitalOcean", "sys_vendor", "DigitalOcean", ""},
	{"Hetzner Cloud", "sys_vendor", "Hetzner", ""},
	{"Akamai Cloud", "sys_vendor", "Linode", ""},
}

// cloud says in which cloud this machine is, "" if in none that is known, and what takes
// the place of multicast there.
func (c *check) cloud() (name, instead string) {
	for _, cloud := range clouds {
		text, _ := c.read("sys/class/dmi/id/" + cloud.file)
		if strings.TrimSpace(text) != cloud.says {
			continue
		}
		if cloud.instead == "" {
			return cloud.name, "an overlay that copies to each host (VXLAN), or a broker such as NATS"
		}
		return cloud.name, cloud.instead
	}
	return "", ""
}
