package shm

import (
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// findable checks that new endpoints can still discover this one. Connected endpoints are not affected
// by what happens to the files: they have them open. But when the files are removed or replaced, new
// endpoints silently form a fabric of their own. Loop only.
type findable struct {
	marks    []mark
	dir      string        // Config.Dir
	apart    time.Duration // between two looks, at least: checkEvery, but in tests
	checked  time.Time     // last
	read     time.Time     // what the clock was when it was read last
	left     int           // polls until it is read again
	every    int           // of how many polls one reads it
	slept    bool          // since then: to read it costs nothing beside that
	reported bool          // it was reported that it is not findable any more
}

const (
	// checkEvery is how often an endpoint looks, and how long it sleeps at most.
	checkEvery = time.Second
	// maxPolls is of how many polls one reads the clock, where they are many in a second.
	maxPolls = 1024
)

// mark is a name by which others find the endpoint, and the inode that has it.
type mark struct {
	at         int // descriptor of the directory that it is in
	name, path string
	inode      uint64
}

// newFindable takes down what others find an endpoint by, the outermost first.
func newFindable(h *fabric, own *ownFile, dir string) findable {
	x := findable{dir: dir, apart: checkEvery, checked: time.Now(), every: 1}
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

// add records that a name is that of an open file.
func (x *findable) add(at int, name, path string, fd int) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) == nil {
		x.marks = append(x.marks, mark{at, name, path, st.Ino})
	}
}

// polled counts a poll, and reports whether to read the clock.
func (x *findable) polled() bool {
	x.left--
	return x.left < 0 || x.slept
}

// isTime reports whether to check, and sets when to read the clock next: several times between two
// checks. If polls are far apart each reads it, at a negligible cost.
func (x *findable) isTime(now time.Time) bool {
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

// bound is timeout, or the time for which it may sleep at most.
func (x *findable) bound(timeout time.Duration) time.Duration {
	if !x.reported && (timeout < 0 || timeout > x.apart) {
		return x.apart
	}
	return timeout
}

// check returns why new endpoints cannot discover this one, or nil if they can.
func (x *findable) check() error {
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
// that is unknown: a lack of descriptors, memory or permission says nothing about the mark.
func (m *mark) became(inode uint64, err error) string {
	switch {
	case err == unix.ENOENT:
		return "was removed, or has another name"
	case err == nil && inode != m.inode:
		return "was removed, and there is another one of its name"
	}
	return ""
}

// keep says how to keep the files.
func (x *findable) keep() string {
	if x.dir != DefaultDir {
		return "have nothing remove what is in " + x.dir
	}
	return "have the files kept: systemd removes them when the user's last session ends, but not after loginctl enable-linger USER, with RemoveIPC=no in logind.conf(5), or elsewhere (dir= in the URL)"
}
