package doctor

import (
	"errors"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/transport/shm"
)

// Free memory for shm:// is compared with the maximum of an endpoint, and the owners of directories with their names.
func TestShared(t *testing.T) {
	const mib = 1 << 20
	docker := map[string]string{".dockerenv": "x"}
	memory := func(dir string, bytes, free int64) SharedMemory {
		return SharedMemory{Dir: dir, Memory: shm.Memory{Bytes: bytes, Free: free}}
	}
	used := func(m SharedMemory) SharedMemory {
		m.Used = true
		return m
	}
	with := func(path string, p shm.Place) SharedMemory {
		m := memory("/dev/shm", 8<<30, 8<<30)
		p.Path = path
		m.Places = []shm.Place{p}
		return m
	}
	for _, c := range []struct {
		name          string
		files         map[string]string
		m             SharedMemory
		level         Level
		wantText, fix string
	}{
		{"much", nil, memory("/dev/shm", 8<<30, 8<<30), OK, "8590 MB free of 8590: enough for 30 endpoints of shm://, which use up to 279 each", ""},
		{"no limit", nil, SharedMemory{Dir: "/dev/shm"}, OK, "no limit of its own", ""},
		{"little", nil, used(memory("/dev/shm", 128*mib, 100*mib)), Warn, "has 134 MB, of which 105 are free, but an endpoint of shm:// may use 279, a quarter of that for messages it publishes", "mount -o remount,size=1G /dev/shm"},
		{"Docker's", docker, used(memory("/dev/shm", 64*mib, 64*mib)), Warn, "; containers get 64 MB by default", "docker run --shm-size=1g"},
		{"Docker's, and more", docker, used(memory("/dev/shm", 128*mib, 128*mib)), Warn, "lose messages earlier", "--shm-size=1g"},
		{"Podman's", map[string]string{"run/.containerenv": "x"}, used(memory("/dev/shm", 64*mib, 64*mib)), Warn, "by default", "podman run --shm-size=1g"},
		{"a pod's", map[string]string{"var/run/secrets/kubernetes.io/serviceaccount/token": "x"}, used(memory("/dev/shm", 64*mib, 64*mib)), Warn, "by default", "emptyDir: {medium: Memory}"},
		{"LXC's", map[string]string{"proc/1/cgroup": "0::/lxc/1"}, used(memory("/dev/shm", 64*mib, 64*mib)), Warn, "by default", "configuration of the container"},
		{"taken", nil, used(memory("/dev/shm", 8<<30, 100*mib)), Warn, "has 105 MB free of 8590", "du -sh /dev/shm/*"},
		{"little, and unused", nil, memory("/dev/shm", 128*mib, 100*mib), Info, "has 134 MB", "mount -o remount,size=1G /dev/shm"},
		{"taken, and unused", nil, memory("/dev/shm", 8<<30, 100*mib), Info, "has 105 MB free", "du -sh"},
		{"full", nil, memory("/dev/shm", 8<<30, 4096), Warn, "/dev/shm is full: 0.0 MB of 8590 are free", "mount -o remount"},
		{"not there", nil, SharedMemory{Dir: "/dev/shm", Err: errors.New("no such file")}, Warn, "no such file: shm:// cannot be used there; set dir=", "mount"},

		{"ours", nil, with("/dev/shm/fanfare-1000", shm.Place{User: 1000, Mine: true}), OK, "", ""},
		{"our own directory is unusable", nil, with("/dev/shm/fanfare-1000", shm.Place{User: 1001, Mine: true, Wrong: "is wrong"}), Fail, "/dev/shm/fanfare-1000 is wrong: you cannot use shm:// there; ask user 1001 or root to remove it", "rm -r /dev/shm/fanfare-1000"},
		{"that of another user is unusable", nil, with("/dev/shm/fanfare-g7", shm.Place{User: 1001, Wrong: "is wrong"}), Warn, "is wrong: shm:// cannot be used there; ask user 1001 or root to remove it", "rm -r /dev/shm/fanfare-g7"},
		{"a fabric is unusable", nil, with("/dev/shm/fanfare-1001/desk", shm.Place{User: 1001, Fabric: true, Wrong: "is wrong"}), Warn, "is wrong: shm:// cannot be used there", ""},
		{"left by another", nil, with("/dev/shm/fanfare-1001/desk", shm.Place{User: 1001, Fabric: true, Left: true, Bytes: 12e6}), Info, "no process uses /dev/shm/fanfare-1001/desk of user 1001 any more, which holds 12.0 MB", ""},
		{"left by us", nil, with("/dev/shm/fanfare-1000/desk", shm.Place{User: 1000, Mine: true, Fabric: true, Left: true}), OK, "", ""},
		{"a bus with a strange dir=, not there", nil, SharedMemory{Dir: "/x;reboot", Err: errors.New("no such file")}, Warn, "in /x;reboot", "mount | grep '/x;reboot'"},
		{"a bus with a strange dir=, little", nil, used(memory("/x;reboot", 128*mib, 100*mib)), Warn, "/x;reboot has 134 MB", "mount -o remount,size=1G '/x;reboot'"},
		{"a bus with a strange dir=, taken", nil, used(memory("/x'$(reboot)", 8<<30, 100*mib)), Warn, "has 105 MB free", `du -sh '/x'\''$(reboot)'/*`},
		{"a directory mounted into a container", docker, used(memory("/run/fast", 64*mib, 64*mib)), Warn, "lose messages earlier", "mount -o remount,size=1G /run/fast"},
	} {
		f := host(t, "mlx5-roce.txt").set(c.files)
		f.Shared, f.EndpointBytes, f.UID = []SharedMemory{c.m}, 279003136, 1000
		check := &check{Facts: f}
		check.shared()
		got, worst := text(check.findings), OK
		for _, finding := range check.findings {
			worst = max(worst, finding.Level)
		}
		if strings.Contains(got, "is wrong") && c.fix == "" && strings.Contains(got, "rm ") {
			t.Errorf("%s: suggests to remove it:\n%s", c.name, got)
		}
		if worst != c.level || !strings.Contains(got, c.wantText) || !strings.Contains(got, c.fix) {
			t.Errorf("%s: want %v with %q and %q, got\n%s", c.name, c.level, c.wantText, c.fix, got)
		}
	}
}
