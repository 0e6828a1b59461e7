package doctor

import (
	"errors"
	"strings"
	"testing"
)

// Memory for shm:// is held against what an endpoint may use, and whose directories are against their names.
func TestShared(t *testing.T) {
	const mib = 1 << 20
	docker := map[string]string{".dockerenv": "x"}
	fit := SharedMemory{Dir: "/dev/shm", Bytes: 8 << 30, Free: 8 << 30}
	with := func(p SharedPlace) SharedMemory {
		m := fit
		p.Path = "/dev/shm/" + p.Name
		if p.Mode == 0 {
			p.Mode = 0o700
		}
		m.Places = []SharedPlace{p}
		return m
	}
	for _, c := range []struct {
		name      string
		files     map[string]string
		m         SharedMemory
		level     Level
		says, fix string
	}{
		{"much", nil, fit, OK, "8590 MB free of 8590: enough for 30 endpoints of shm://, which use up to 279 each", ""},
		{"no limit", nil, SharedMemory{Dir: "/dev/shm"}, OK, "no limit of its own", ""},
		{"little", nil, SharedMemory{Dir: "/dev/shm", Used: true, Bytes: 128 * mib, Free: 100 * mib}, Warn, "has 134 MB, of which 105 are free, and an endpoint of shm:// may use 279, a quarter of it for what it publishes", "mount -o remount,size=1G /dev/shm"},
		{"Docker's", docker, SharedMemory{Dir: "/dev/shm", Used: true, Bytes: 64 * mib, Free: 64 * mib}, Warn, "; 64 MB is what containers get by default", "docker run --shm-size=1g"},
		{"Docker's, and more", docker, SharedMemory{Dir: "/dev/shm", Used: true, Bytes: 128 * mib, Free: 128 * mib}, Warn, "are lost sooner", "--shm-size=1g"},
		{"Podman's", map[string]string{"run/.containerenv": "x"}, SharedMemory{Dir: "/dev/shm", Used: true, Bytes: 64 * mib, Free: 64 * mib}, Warn, "by default", "podman run --shm-size=1g"},
		{"a pod's", map[string]string{"var/run/secrets/kubernetes.io/serviceaccount/token": "x"}, SharedMemory{Dir: "/dev/shm", Used: true, Bytes: 64 * mib, Free: 64 * mib}, Warn, "by default", "emptyDir: {medium: Memory}"},
		{"LXC's", map[string]string{"proc/1/cgroup": "0::/lxc/1"}, SharedMemory{Dir: "/dev/shm", Used: true, Bytes: 64 * mib, Free: 64 * mib}, Warn, "by default", "configuration of the container"},
		{"taken", nil, SharedMemory{Dir: "/dev/shm", Used: true, Bytes: 8 << 30, Free: 100 * mib}, Warn, "has 105 MB free of 8590", "du -sh /dev/shm/*"},
		{"little, and unused", nil, SharedMemory{Dir: "/dev/shm", Bytes: 128 * mib, Free: 100 * mib}, Info, "has 134 MB", "mount -o remount,size=1G /dev/shm"},
		{"taken, and unused", nil, SharedMemory{Dir: "/dev/shm", Bytes: 8 << 30, Free: 100 * mib}, Info, "has 105 MB free", "du -sh"},
		{"full", nil, SharedMemory{Dir: "/dev/shm", Bytes: 8 << 30, Free: 4096}, Warn, "/dev/shm is full: 0.0 MB of 8590 are free", "mount -o remount"},
		{"not there", nil, SharedMemory{Dir: "/dev/shm", Err: errors.New("no such file")}, Warn, "no such file: shm:// cannot be used there; set dir=", "mount"},

		{"ours", nil, with(SharedPlace{Name: "fanfare-1000", IsDir: true, UID: 1000}), OK, "", ""},
		{"a group's", nil, with(SharedPlace{Name: "fanfare-g7", IsDir: true, UID: 1001, GID: 7, Mode: 0o2770}), OK, "", ""},
		{"another program's", nil, with(SharedPlace{Name: "fanfare-test-17", IsDir: true, UID: 1000, Mode: 0o777}), OK, "", ""},
		{"ours is another's", nil, with(SharedPlace{Name: "fanfare-1000", IsDir: true, UID: 1001}), Fail, "/dev/shm/fanfare-1000 belongs to user 1001, and is the place of user 1000: shm:// is refused to you", "rm -r /dev/shm/fanfare-1000"},
		{"ours is a file", nil, with(SharedPlace{Name: "fanfare-1000", UID: 1000}), Fail, "is no directory", "rm -r"},
		{"ours is open", nil, with(SharedPlace{Name: "fanfare-1000", IsDir: true, UID: 1000, Mode: 0o755}), Fail, "has mode 0755, which lets others in, where 0700 is the most", "rm -r"},
		{"another user's is open", nil, with(SharedPlace{Name: "fanfare-1001", IsDir: true, UID: 1001, Mode: 0o777}), Warn, "shm:// is refused there; have it removed by user 1001 or root", "rm -r"},
		{"a group's is another's", nil, with(SharedPlace{Name: "fanfare-g7", IsDir: true, UID: 1001, GID: 1001, Mode: 0o2770}), Warn, "belongs to group 1001, and is the place of group 7", "rm -r"},
		{"a group's is open", nil, with(SharedPlace{Name: "fanfare-g7", IsDir: true, UID: 1001, GID: 7, Mode: 0o2775}), Warn, "has mode 02775, which lets others in, where 02770", "rm -r"},
		{"left by another", nil, with(SharedPlace{Name: "fanfare-1001", IsDir: true, UID: 1001, Left: true, Bytes: 12e6}), Info, "nobody lives in /dev/shm/fanfare-1001 of user 1001 any more, and it holds 12.0 MB", ""},
		{"left by us", nil, with(SharedPlace{Name: "fanfare-1000", IsDir: true, UID: 1000, Left: true}), OK, "", ""},
		{"a name that begins as ours", nil, with(SharedPlace{Name: "fanfare-1000';reboot'", UID: 1000}), OK, "", ""},
		{"a bus with a strange dir=, not there", nil, SharedMemory{Dir: "/x;reboot", Err: errors.New("no such file")}, Warn, "in /x;reboot", "mount | grep '/x;reboot'"},
		{"a bus with a strange dir=, little", nil, SharedMemory{Dir: "/x;reboot", Used: true, Bytes: 128 * mib, Free: 100 * mib}, Warn, "/x;reboot has 134 MB", "mount -o remount,size=1G '/x;reboot'"},
		{"a bus with a strange dir=, taken", nil, SharedMemory{Dir: "/x'$(reboot)", Used: true, Bytes: 8 << 30, Free: 100 * mib}, Warn, "has 105 MB free", `du -sh '/x'\''$(reboot)'/*`},
		{"a place that is mounted in a container", docker, SharedMemory{Dir: "/run/fast", Used: true, Bytes: 64 * mib, Free: 64 * mib}, Warn, "are lost sooner", "mount -o remount,size=1G /run/fast"},
	} {
		f := host(t, "mlx5-roce.txt").set(c.files)
		f.Shared, f.EndpointBytes, f.UID = []SharedMemory{c.m}, 279003136, 1000
		check := &check{Facts: f}
		check.shared()
		got, worst := text(check.findings), OK
		for _, finding := range check.findings {
			worst = max(worst, finding.Level)
		}
		if worst != c.level || !strings.Contains(got, c.says) || !strings.Contains(got, c.fix) {
			t.Errorf("%s: want %v with %q and %q, got\n%s", c.name, c.level, c.says, c.fix, got)
		}
	}
}
