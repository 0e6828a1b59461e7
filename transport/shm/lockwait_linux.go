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
	// membersWait is how long to wait for the lock of the members file while no endpoint joins or leaves: each holds the
	// lock for milliseconds, but hundreds may join at once.
	membersWait = 5 * time.Second
	// maxMembersWait bounds the whole wait, however many endpoints join and leave.
	maxMembersWait = 30 * time.Second
	// maxCheckInterval bounds how much of the time between two checks counts: if it is longer this process was stopped,
	// perhaps together with the lock holder.
	maxCheckInterval = 100 * time.Millisecond
)

var errLocked = errors.New("another process holds the lock of the fabric")

// lockWait is a wait for the lock of a members file.
type lockWait struct {
	checked    time.Time     // time of the last check
	all, since time.Duration // duration of the wait in all, and since an endpoint last joined or left
	count      [8]byte       // content of the members file then
}

func newLockWait(now time.Time) lockWait { return lockWait{checked: now} }

// over reports whether to give up, given the content of the members file.
func (p *lockWait) over(now time.Time, count [8]byte) bool {
	d := min(now.Sub(p.checked), maxCheckInterval)
	p.checked, p.all, p.since = now, p.all+d, p.since+d
	if count != p.count {
		p.since, p.count = 0, count
	}
	return p.since > membersWait || p.all > maxMembersWait
}

// locked is the error of giving up. holder is the process id of the lock holder, 0 if not known.
func (p *lockWait) locked(dir string, holder int) error {
	name, do := "another process", "fuser -v "+filepath.Join(dir, membersName)+" names it"
	if holder > 0 {
		name, do = fmt.Sprint("process ", holder), fmt.Sprintf("continue it (kill -CONT %d), or end it", holder)
	}
	if p.since > membersWait {
		return fmt.Errorf("%s: %w: %s has held it for %v: is it stopped? %s", dir, errLocked, name, p.since.Round(time.Second), do)
	}
	return fmt.Errorf("%s: %w: endpoints kept joining and leaving for %v, and %s holds it now: try again, or %s", dir, errLocked, p.all.Round(time.Second), name, do)
}

// lockHolder is the id of the process that has locked a file, 0 if that is unknown.
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

// holderIn finds the process that has locked a file in the text of /proc/locks (proc_locks(5)), such as "1: FLOCK
// ADVISORY WRITE 1234 00:1a:56 0 EOF". Lines of waiting processes have an arrow after the number.
func holderIn(locks, file string) int {
	for line := range strings.Lines(locks) {
		if f := strings.Fields(line); len(f) > 5 && f[1] == "FLOCK" && f[5] == file {
			pid, _ := strconv.Atoi(f[4])
			return max(pid, 0)
		}
	}
	return 0
}
