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
	// rollWait is how long the lock of the roll is waited for while nobody comes or goes: who holds
	// it needs milliseconds, but hundreds may come at once.
	rollWait = 5 * time.Second
	// mostRollWait is how long it is waited for in all, however many come and go.
	mostRollWait = 30 * time.Second
)

var errLocked = errors.New("another process has the lock of the fabric")

// patience is how long somebody waits for the lock of a roll.
type patience struct {
	first, moved time.Time // when it began, and when somebody came or went last
	roll         [8]byte   // what the roll was then
}

func newPatience(now time.Time) patience { return patience{first: now, moved: now} }

// over reports whether to give up, by what the roll is now.
func (p *patience) over(now time.Time, roll [8]byte) bool {
	if roll != p.roll {
		p.moved, p.roll = now, roll
	}
	return now.Sub(p.moved) > rollWait || now.Sub(p.first) > mostRollWait
}

// locked is the error of having given up. The holder of the lock is 0 where it is not known.
func (p *patience) locked(now time.Time, dir string, holder int) error {
	who, do := "another process", "fuser -v "+filepath.Join(dir, rollName)+" names it"
	if holder > 0 {
		who, do = fmt.Sprint("process ", holder), fmt.Sprintf("let it go on (kill -CONT %d), or end it", holder)
	}
	if now.Sub(p.moved) > rollWait {
		return fmt.Errorf("%s: %w: %s has held it for %v: is it stopped? %s", dir, errLocked, who, now.Sub(p.moved).Round(time.Second), do)
	}
	return fmt.Errorf("%s: %w: others came and went all the time for %v, and %s has it now: try again, or %s", dir, errLocked, now.Sub(p.first).Round(time.Second), who, do)
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
// "1: FLOCK  ADVISORY  WRITE 1234 00:1a:56 0 EOF". Who waits for a lock has an arrow behind the number.
func holderIn(locks, file string) int {
	for line := range strings.Lines(locks) {
		if f := strings.Fields(line); len(f) > 5 && f[1] == "FLOCK" && f[5] == file {
			pid, _ := strconv.Atoi(f[4])
			return max(pid, 0)
		}
	}
	return 0
}
