package fabricurl

import (
	"strings"
	"testing"
)

// A name or an address alone is no URL, and the error says what to write.
func TestBareNames(t *testing.T) {
	for text, says := range map[string]string{
		"lo": "lo: it is no URL: write udp://?iface=lo for UDP", "": "udp://?iface=eth0", "239.20.0.0/16": "write udp://239.20.0.0/16 for a multicast group",
		"239.20.0.0:7400": "write udp://239.20.0.0:7400", "tcp://x": `no transport is called "tcp"`,
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
}
