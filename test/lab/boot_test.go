package lab

import (
	"strings"
	"testing"
)

// The lab boots, and its kernel has an active RoCE device.
func TestBoot(t *testing.T) {
	Need(t)
	t.Parallel()
	r := Run{Command: "ibv_devinfo -v; uname -r"}.Do(t).OK(t)
	for _, want := range []string{"hca_id:\trxe0", "PORT_ACTIVE (4)", "link_layer:\t\tEthernet", "max_mcast_grp:\t\t\t8192", "::ffff:10.99.0.1, RoCE v2"} {
		if !strings.Contains(r.Out[1], want) {
			t.Errorf("no %q in\n%s", want, r.Out[1])
		}
	}
}

// Output and exit status of VMs and host are returned; a VM that dies ends the run, even if another one waits for it.
func TestRun(t *testing.T) {
	Need(t)
	t.Parallel()
	t.Run("status", func(t *testing.T) {
		r := Run{VMs: 2, Commands: map[int]string{1: "echo one; exit 3", 2: "ping -c1 -w5 10.99.0.254 >/dev/null && echo host is there"}, Host: "vm-wait x & sleep 1; echo $IP; vm-signal x; wait"}.Do(t)
		if r.Status != 3 || r.Out[1] != "one\n" || r.Out[2] != "host is there\n" || r.Out[0] != HostAddr+"\n" {
			t.Errorf("status %d, output %q, want 3 and the texts of the host and of both VMs", r.Status, r.Out)
		}
	})
	t.Run("death", func(t *testing.T) {
		r := Run{VMs: 2, Commands: map[int]string{1: "vm-wait never", 2: "reboot -f"}}.Do(t)
		if r.Status != 125 {
			t.Errorf("status %d, want 125", r.Status)
		}
	})
}
