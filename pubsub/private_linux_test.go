package pubsub

import (
	"bufio"
	"os"
	"strings"
	"testing"
)

// shared lists the shared mappings of this process.
func shared(t *testing.T) (list []string) {
	t.Helper()
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 1 && strings.HasSuffix(fields[1], "s") { // proc_pid_maps(5)
			list = append(list, lines.Text())
		}
	}
	return list
}

// files are the names of files that this process has open.
func files(t *testing.T) map[string]bool {
	t.Helper()
	dir, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]bool)
	for _, e := range dir {
		path := "/proc/self/fd/" + e.Name()
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			to, _ := os.Readlink(path)
			all[to] = true
		}
	}
	return all
}

// Packets and messages are never in shared memory or in files, not even while they wait to be read, so that other
// users and processes cannot read them. docs/security.md.
func TestMemoryIsPrivate(t *testing.T) {
	eachFabric(t, func(t *testing.T, url string) {
		if strings.HasPrefix(url, "shm:") {
			t.Skip("its memory is shared by design: see ./transport/shm and ./test/shm")
		}
		before, open := len(shared(t)), files(t)
		ctx := testContext(t)
		pubBus, subBus := openBus(t, Config{}, url), openBus(t, Config{}, url)
		sub, pub := subscribe(t, subBus, "x"), publisher(t, pubBus, "x")
		wait(t, ctx, pub, 1)
		publishAll(t, ctx, pub, 1000)
		if list := shared(t); len(list) > before {
			t.Errorf("shared memory %q, want at most %d entries", list, before)
		}
		for name := range files(t) {
			// Other names are not files: timerfd_create(2). Files of proc(5) and sysfs(5) contain no memory of processes.
			if !open[name] && strings.HasPrefix(name, "/") && !strings.HasPrefix(name, "/proc/") && !strings.HasPrefix(name, "/sys/") {
				t.Errorf("a file is open: %s", name)
			}
		}
		expectAll(t, ctx, sub, 1000)
	})
}
