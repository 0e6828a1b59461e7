package shm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// membersWait is how long to wait for the lock of the members file while no endpoint joins or leaves: each holds it
	// for milliseconds, but hundreds may join at once.
	membersWait = 5 * time.Second
	// maxMembersWait is how long it is waited for in all, however many come and go.
	maxMembersWait = 30 * time.Second
	// mostLook is how long a process that runs takes to look again. Longer does not count: it was stopped, perhaps
	// together with the holder of the lock.
	mostLook = 100 * time.Millisecond
)

var errLocked = errors.New("another process has the lock of the fabric")

// lockWait is a wait for the lock of a members file.
type lockWait struct {
	looked     time.Time     // last
	all, since time.Duration // for how long it has lasted, in all, and since an endpoint joined or left last
	count      [8]byte       // what the members file held then
}

func newLockWait(now time.Time) lockWait { return lockWait{looked: now} }

// over reports whether to give up, given what the members file holds.
func (p *lockWait) over(now time.Time, count [8]byte) bool {
	d := min(now.Sub(p.looked), mostLook)
	p.looked, p.all, p.since = now, p.all+d, p.since+d
	if count != p.count {
		p.since, p.count = 0, count
	}
	return p.since > membersWait || p.all > maxMembersWait
}

// locked is the error of having given up. The holder of the lock is 0 where it is not known.
func (p *lockWait) locked(dir string, holder int) error {
	name, do := "another process", "fuser -v "+filepath.Join(dir, membersName)+" names it"
	if holder > 0 {
		name, do = fmt.Sprint("process ", holder), fmt.Sprintf("let it go on (kill -CONT %d), or end it", holder)
	}
	if p.since > membersWait {
		return fmt.Errorf("%s: %w: %s has held it for %v: is it stopped? %s", dir, errLocked, name, p.since.Round(time.Second), do)
	}
	return fmt.Errorf("%s: %w: endpoints kept joining and leaving for %v, and %s has it now: try again, or %s", dir, errLocked, p.all.Round(time.Second), name, do)
}

// lockHolder is the process that has locked a file, 0 where that cannot be said.
func lockHolder(fd int) int {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return 0
	}
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return 0
	}
	return holderIn(string(locks), fmt.Sprintf("%02x:%02x:%d", unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino))
}

// holderIn finds the process that has locked a file in the text of /proc/locks (proc_locks(5)), such as
// "1: FLOCK  ADVISORY  WRITE 1234 00:1a:56 0 EOF". Waiting processes have an arrow behind the number.
func holderIn(locks, file string) int {
	for line := range strings.Lines(locks) {
		if f := strings.Fields(line); len(f) > 5 && f[1] == "FLOCK" && f[5] == file {
			pid, _ := strconv.Atoi(f[4])
			return max(pid, 0)
		}
	}
	return 0
}
