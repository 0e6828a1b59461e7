package lab

import (
	"strings"
	"testing"
)

// "fanfare doctor" in a VM with a RoCE device, built without and with rdma-core, and with faults.
func TestDoctor(t *testing.T) {
	Need(t)
	t.Parallel()
	dir := t.TempDir()
	Build(t, dir, "./cmd/fanfare")
	BuildRDMA(t, dir+"/rdma", "./cmd/fanfare")
	r := Run{Dir: dir, Command: `
		./fanfare doctor; echo "exit $?"; echo ==
		rdma/fanfare doctor -iface rxe0; echo "exit $?"; echo ==
		./fanfare doctor -iface eth0; echo "exit $?"; echo ==
		rdma/fanfare doctor; echo "exit $?"; echo ==
		rdma/fanfare doctor -iface 10.99.0.1 2>&1; echo "exit $?"; echo ==
		rdma/fanfare doctor -iface rxe7 2>&1; echo "exit $?"; echo ==
		ip link set eth0 down
		./fanfare doctor -notest; echo "exit $?"`}.Do(t).OK(t)
	parts := strings.Split(r.Out[1], "==\n")
	for i, wants := range [][]string{
		{"rxe0 port 1 is active: Ethernet", "GID 1 is ::ffff:10.99.0.1, RoCE v2", "multicast limits are unknown", "use rdma:// on this host",
			"udp on lo: received 100 of 100", "roce://lo cannot receive", "rdma://rxe0 was not tested, because", "This host is ready.\nexit 0\n"},
		{"rxe0: up to 8192 groups, 56 queue pairs per group, 458752 attachments in total",
			"rdma://rxe0: joined as full and as send-only member, received 10 of 10", "This host is ready.\nexit 0\n"},
		{"warn  udp       udp on eth0: received 100 of 100 messages in a self-test; GSO off", "warn  rdma      rdma://rxe0 was not tested: rdma/verbs: this program was built without",
			"This host is ready, with 2 warnings.\nexit 3\n"},
		{"rdma://rxe0 was not tested, because", "try: fanfare doctor -iface rxe0", "This host is ready.\nexit 0\n"},
		{"udp on eth0: received 100 of 100", "rdma://rxe0: joined as full and as send-only member, received 10 of 10", "This host is ready, with 1 warning.\nexit 3\n"},
		{`-iface "rxe7" is not a network interface, an address or an RDMA device of this host: interfaces are eth0, lo; RDMA devices: rxe0` + "\nexit 2\n"},
		{"fail  rdma      rxe0 port 1 is in state DOWN", "try: ip link set eth0 up", "not ready: 1 failure and 1 warning.\nexit 1\n"},
	} {
		for _, want := range wants {
			if i >= len(parts) || !strings.Contains(parts[i], want) {
				t.Errorf("run %d: no %q in\n%s", i, want, r.Out[1])
			}
		}
	}
}
