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
	// rollWait is how long to wait for the lock of the roll while no endpoint joins or leaves: each
	// holds it for milliseconds, but hundreds may join at once.
	rollWait = 5 * time.Second
	// maxRollWait is how long it is waited for in all, however many come and go.
	maxRollWait = 30 * time.Second
)

var errLocked = errors.New("another process has the lock of the fabric")

// lockWait is a wait for the lock of a roll.
type lockWait struct {
	first, moved time.Time // when it began, and when an endpoint joined or left last
	roll         [8]byte   // what the roll was then
}

func newLockWait(now time.Time) lockWait { return lockWait{first: now, moved: now} }

// over reports whether to give up, given the current roll.
func (p *lockWait) over(now time.Time, roll [8]byte) bool {
	if roll != p.roll {
		p.moved, p.roll = now, roll
	}
	return now.Sub(p.moved) > rollWait || now.Sub(p.first) > maxRollWait
}

// locked is the error of having given up. The holder of the lock is 0 where it is not known.
func (p *lockWait) locked(now time.Time, dir string, holder int) error {
	name, do := "another process", "fuser -v "+filepath.Join(dir, rollName)+" names it"
	if holder > 0 {
		name, do = fmt.Sprint("process ", holder), fmt.Sprintf("let it go on (kill -CONT %d), or end it", holder)
	}
	if now.Sub(p.moved) > rollWait {
		return fmt.Errorf("%s: %w: %s has held it for %v: is it stopped? %s", dir, errLocked, name, now.Sub(p.moved).Round(time.Second), do)
	}
	return fmt.Errorf("%s: %w: endpoints kept joining and leaving for %v, and %s has it now: try again, or %s", dir, errLocked, now.Sub(p.first).Round(time.Second), name, do)
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
