package fabricurl

import (
	"strings"
	"testing"
)

// A name or an address alone is not a URL, nor is one without its colon, and the error shows the right URL.
func TestBareNames(t *testing.T) {
	for text, says := range map[string]string{
		"lo": "lo: it is not a URL: write udp://?iface=lo for UDP", "": "udp://?iface=eth0", "239.20.0.0/16": "write udp://239.20.0.0/16 for a multicast group",
		"239.20.0.0:7400": "write udp://239.20.0.0:7400", "tcp://x": `there is no transport "tcp"`,
		"udp//bad": "udp//bad: it is not a URL: did you mean udp://bad?", "udp/239.20.0.0/16": "did you mean udp://239.20.0.0/16?", "shm//lab?dir=/x": "did you mean shm://lab?dir=/x?",
		"shm": "write shm://NAME, the same NAME for all", "mem": "write mem://NAME",
		"udp//?iface=lo": "did you mean udp://?iface=lo?", "roce//": "did you mean roce://?", "udp": "write udp://?iface=udp for UDP", "tcp//x": "write udp://?iface=tcp//x",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("Parse(%q): error %v, want one containing %q", text, err, says)
		}
	}
}
