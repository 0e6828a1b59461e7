package cli

import (
	"os"
	"runtime"
	"slices"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/doctor"
	"github.com/fanfaremq/fanfare/internal/fabricurl"
	"github.com/fanfaremq/fanfare/transport/shm"
)

// lookAtShared gathers the facts of the shared memory that shm:// has by itself, and that buses of this host have.
func lookAtShared(facts *doctor.Facts) {
	if runtime.GOOS != "linux" {
		return // there is no shm://
	}
	facts.UID, facts.EndpointBytes = os.Geteuid(), shm.EndpointBytes
	dirs, used := sharedDirs(facts.Buses)
	for _, dir := range dirs {
		m := doctor.SharedMemory{Dir: printable(dir), Used: used[dir]}
		m.Memory, m.Err = shm.LookAt(dir)
		for i := range m.Places { // whose names others may have chosen
			m.Places[i].Path = printable(m.Places[i].Path)
		}
		facts.Shared = append(facts.Shared, m)
	}
}

// sharedDirs are the directories for shared memory: that of shm:// without dir=, and those that buses have, which use them.
func sharedDirs(buses []doctor.Bus) (dirs []string, used map[string]bool) {
	dirs, used = []string{shm.DefaultDir}, make(map[string]bool)
	for i := range buses {
		for _, raw := range buses[i].URLs {
			dir, ok := fabricurl.SharedDir(raw)
			if !ok {
				continue
			}
			used[dir] = true
			if !slices.Contains(dirs, dir) {
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs, used
}
