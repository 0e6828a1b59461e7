package doctor

import (
	"strings"
	"testing"
)

// Containers and clouds are detected by files in /proc, /sys and /, and the finding names an alternative to multicast.
func TestEnvironment(t *testing.T) {
	device := map[string]string{"sys/class/net/enp1s0np0/device/vendor": "0x15b3"}
	for _, c := range []struct {
		name     string
		files    map[string]string
		short    string
		level    Level
		wantText string
		fix      string
	}{
		{"bare metal", device, "", OK, "", ""},
		{"Docker", map[string]string{".dockerenv": "x"}, "Docker container with its own network", Warn, "only containers on the same bridge", "--network host"},
		{"Docker by its cgroup", map[string]string{"proc/1/cgroup": "0::/docker/3f2a"}, "Docker container with its own network", Warn, "Docker container", "macvlan"},
		{"Podman", map[string]string{"run/.containerenv": "x"}, "Podman container with its own network", Warn, "Podman", "--network host"},
		{"Kubernetes", map[string]string{".dockerenv": "x", "var/run/secrets/kubernetes.io/serviceaccount/token": "x"}, "Kubernetes container with its own network", Warn, "this pod has its own network", "hostNetwork: true"},
		{"Docker with the host's network", map[string]string{".dockerenv": "x", "sys/class/net/enp1s0np0/device/vendor": "0x15b3"}, "", Info, "uses the network of its host", ""},
		{"EC2", map[string]string{"sys/class/dmi/id/sys_vendor": "Amazon EC2"}, "Amazon EC2", Warn, "Transit Gateway with a multicast domain", "type vxlan"},
		{"Google", map[string]string{"sys/class/dmi/id/product_name": "Google Compute Engine"}, "Google Cloud", Warn, "a broker such as NATS", "type vxlan"},
		{"Azure", map[string]string{"sys/class/dmi/id/chassis_asset_tag": "7783-7084-3265-9085-8269-3286-77"}, "Microsoft Azure", Warn, "does not carry multicast", "type vxlan"},
		{"another machine", map[string]string{"sys/class/dmi/id/sys_vendor": "Supermicro", "proc/1/cgroup": "0::/init.scope"}, "", OK, "", ""},
		{"a container in a cloud", map[string]string{"proc/1/cgroup": "0::/kubepods/pod1", "sys/class/dmi/id/sys_vendor": "DigitalOcean"}, "Kubernetes container with its own network, in DigitalOcean", Warn, "DigitalOcean", "type vxlan"},
	} {
		f := host(t, "mlx5-roce.txt").set(c.files)
		if got := f.Environment(); got != c.short {
			t.Errorf("%s: Environment is %q, want %q", c.name, got, c.short)
		}
		worst, found := OK, c.wantText == ""
		for _, finding := range Check(f) {
			worst = max(worst, finding.Level)
			found = found || strings.Contains(finding.Text, c.wantText) && finding.Level == c.level && strings.Contains(finding.Fix, c.fix)
		}
		if !found || worst > max(c.level, Info) {
			t.Errorf("%s: no %v with %q and %q in\n%s", c.name, c.level, c.wantText, c.fix, text(Check(f)))
		}
	}
}
