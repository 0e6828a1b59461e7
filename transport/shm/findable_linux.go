package shm

import (
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// findable looks whether who comes still finds the endpoint. Those who have met go on whatever
// becomes of their files: they have them open. But where the files are removed, or others are in
// their place, who comes next makes a fabric of his own, and nobody would say so. Loop only.
type findable struct {
	marks  []mark
	dir    string        // Config.Dir
	apart  time.Duration // between two looks, at least: lookEvery, but in tests
	looked time.Time     // last
	read   time.Time     // what the clock was when it was read last
	left   int           // polls until it is read again
	every  int           // of how many polls one reads it
	slept  bool          // since then: to read it costs nothing beside that
	told   bool          // it is not findable any more
}

const (
	// lookEvery is how often an endpoint looks, and how long it sleeps at most.
	lookEvery = time.Second
	// mostPolls is of how many polls one reads the clock, where they are many in a second.
	mostPolls = 1024
)

// mark is a name that others find the endpoint by, and what has it.
type mark struct {
	at         int // descriptor of the directory that it is in
	name, path string
	inode      uint64
}

// newFindable takes down what others find an endpoint by, the outermost first.
func newFindable(h *hall, own *ownFile, dir string) findable {
	x := findable{dir: dir, apart: lookEvery, looked: time.Now(), every: 1}
	above := filepath.Dir(h.path)
	x.add(h.above, filepath.Join("..", filepath.Base(above)), above, h.above)
	x.add(h.above, h.name, h.path, h.fd)
	for _, of := range []struct {
		name string
		fd   int
	}{{rollName, h.roll}, {fileName(own.id), own.fd}, {bellName(own.id), own.bell}} {
		x.add(h.fd, of.name, filepath.Join(h.path, of.name), of.fd)
	}
	return x
}

// add takes down that a name is that of what is open.
func (x *findable) add(at int, name, path string, fd int) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) == nil {
		x.marks = append(x.marks, mark{at, name, path, st.Ino})
	}
}

// polled notes a poll, and reports whether to read the clock.
func (x *findable) polled() bool {
	x.left--
	return x.left < 0 || x.slept
}

// isTime reports whether to look, and says when to read the clock next: it is to be read several
// times between two looks. Of polls that are far apart each may, beside which that is nothing.
func (x *findable) isTime(now time.Time) bool {
	if now.Sub(x.read) > x.apart/4 {
		x.every = max(1, x.every/2)
	} else {
		x.every = min(mostPolls, 2*x.every)
	}
	x.read, x.left, x.slept = now, x.every-1, false
	if x.told || now.Sub(x.looked) < x.apart {
		return false
	}
	x.looked = now
	return true
}

// bound is timeout, or the time for which it may sleep at most.
func (x *findable) bound(timeout time.Duration) time.Duration {
	if !x.told && (timeout < 0 || timeout > x.apart) {
		return x.apart
	}
	return timeout
}

// look returns why who comes does not find the endpoint any more, nil if he does.
func (x *findable) look() error {
	for i := range x.marks {
		m := &x.marks[i]
		var st unix.Stat_t
		err := unix.Fstatat(m.at, m.name, &st, unix.AT_SYMLINK_NOFOLLOW)
		if what := m.became(st.Ino, err); what != "" {
			return fmt.Errorf("shm: %s %s: those who have met go on, but who comes from now on does not meet this process: restart it, and %s", m.path, what, x.keep())
		}
	}
	return nil
}

// became says what became of a mark, by what has its name now. It is empty where it is as it was, or
// where that cannot be said: to lack descriptors, memory or a permission is no news of the mark.
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
