package fabricurl

import (
	"strings"
	"testing"
)

// The addresses of groups are known without opening a transport. docs/protocol §15.4, §16.1.
func TestGroups(t *testing.T) {
	for url, want := range map[string]string{
		"udp://": "239.20.0.0:7400", "udp://239.1.2.3/24?port=7500&groups=16": "239.1.2.3:7500", "udp://[ff15::20:0]/112?iface=eth9": "[ff15::20:0]:7400",
		"roce://eth9": "239.20.0.0:0", "rdma://mlx5_0/239.30.0.0/24?groups=16": "239.30.0.0:0",
	} {
		f, err := Parse(url)
		if err != nil {
			t.Fatal(err)
		}
		if first, n, err := f.Groups(); err != nil || first.String() != want || n != 16 {
			t.Errorf("%s: first group %v of %d, error %v, want %s of 16", url, first, n, err, want)
		}
	}
	for url, says := range map[string]string{"mem://x": "mem://x: the groups of this fabric have no addresses", "udp://10.0.0.1": "multicast"} {
		f, err := Parse(url)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := f.Groups(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("groups of %s: error %v, want one containing %q", url, err, says)
		}
	}
}
