package shm

import (
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// discoverable checks that new endpoints can still discover this one. Connected endpoints have the files open, and are
// not affected. But when the files are removed or replaced, new endpoints silently form a separate fabric. Loop only.
type discoverable struct {
	marks    []mark
	dir      string        // Config.Dir
	apart    time.Duration // minimum time between two checks: checkEvery, except in tests
	checked  time.Time     // time of the last check
	read     time.Time     // time when the clock was last read
	left     int           // polls until the clock is read again
	every    int           // number of polls for each reading of the clock
	slept    bool          // slept since then: compared with that, reading the clock costs nothing
	reported bool          // it was reported that the endpoint is not discoverable
}

const (
	// checkEvery is the interval of checks, and bounds how long an endpoint sleeps.
	checkEvery = time.Second
	// maxPolls bounds the number of polls for each reading of the clock.
	maxPolls = 1024
)

// mark is a file name by which others discover the endpoint, and its inode.
type mark struct {
	at         int // descriptor of its directory
	name, path string
	inode      uint64
}

// newDiscoverable records the files by which others discover an endpoint, the outermost directory first.
func newDiscoverable(h *fabric, own *ownFile, dir string) discoverable {
	x := discoverable{dir: dir, apart: checkEvery, checked: time.Now(), every: 1}
	above := filepath.Dir(h.path)
	x.add(h.above, filepath.Join("..", filepath.Base(above)), above, h.above)
	x.add(h.above, h.name, h.path, h.fd)
	for _, of := range []struct {
		name string
		fd   int
	}{{membersName, h.members}, {fileName(own.id), own.fd}, {bellName(own.id), own.bell}} {
		x.add(h.fd, of.name, filepath.Join(h.path, of.name), of.fd)
	}
	return x
}

// add records the name of an open file.
func (x *discoverable) add(at int, name, path string, fd int) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) == nil {
		x.marks = append(x.marks, mark{at, name, path, st.Ino})
	}
}

// polled counts a poll, and reports whether to read the clock.
func (x *discoverable) polled() bool {
	x.left--
	return x.left < 0 || x.slept
}

// isTime reports whether to check now, and sets when to read the clock next: several times between two checks. If polls
// are far apart each one reads it, at a negligible cost.
func (x *discoverable) isTime(now time.Time) bool {
	if now.Sub(x.read) > x.apart/4 {
		x.every = max(1, x.every/2)
	} else {
		x.every = min(maxPolls, 2*x.every)
	}
	x.read, x.left, x.slept = now, x.every-1, false
	if x.reported || now.Sub(x.checked) < x.apart {
		return false
	}
	x.checked = now
	return true
}

// bound is timeout, or the maximum time to sleep if that is less.
func (x *discoverable) bound(timeout time.Duration) time.Duration {
	if !x.reported && (timeout < 0 || timeout > x.apart) {
		return x.apart
	}
	return timeout
}

// check returns why new endpoints cannot discover this one, or nil if they can.
func (x *discoverable) check() error {
	for i := range x.marks {
		m := &x.marks[i]
		var st unix.Stat_t
		err := unix.Fstatat(m.at, m.name, &st, unix.AT_SYMLINK_NOFOLLOW)
		if what := m.became(st.Ino, err); what != "" {
			return fmt.Errorf("shm: %s %s: new processes can no longer discover this one; existing connections continue: restart it, and %s", m.path, what, x.keep())
		}
	}
	return nil
}

// became describes the change of a mark, given the inode that has its name now. It is empty if nothing changed, or if
// that is unknown: an error because of descriptors, memory or permissions says nothing about the mark.
func (m *mark) became(inode uint64, err error) string {
	switch {
	case err == unix.ENOENT:
		return "was removed or renamed"
	case err == nil && inode != m.inode:
		return "was replaced by another file"
	}
	return ""
}

// keep is the advice how to keep the files.
func (x *discoverable) keep() string {
	if x.dir != DefaultDir {
		return "ensure that no program removes files in " + x.dir
	}
	return "prevent the removal: systemd removes the files when the user's last session ends, unless you set loginctl enable-linger USER, RemoveIPC=no in logind.conf(5), or another directory (dir= in the URL)"
}
