package shm

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// fate is the state of a file's owner.
type fate uint8

const (
	lives  fate = iota // also where that cannot be said
	coming             // its file has no size yet: it is locked before it has
	dead               // also where it is no regular file, which none of an endpoint is
	gone               // and its file
)

// seen is the state of the owner of an endpoint's file, judged without its lock.
func (h *fabric) seen(name string) fate {
	var st unix.Stat_t
	switch err := unix.Fstatat(h.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); {
	case err == unix.ENOENT:
		return gone
	case err != nil:
		return lives
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return dead
	case st.Size == 0:
		return coming
	}
	return lives
}

// judge returns the state of the owner of an endpoint's file. It tries the file's lock, so for a
// starting endpoint only the holder of the members file's lock may call it.
func (h *fabric) judge(name string) fate {
	if f := h.seen(name); f == dead || f == gone {
		return f
	}
	fd, err := h.openFile(name, unix.O_RDONLY)
	switch {
	case errors.Is(err, fs.ErrPermission): // one that is not shared never will be
		return dead
	case errors.Is(err, fs.ErrNotExist):
		return gone
	case err != nil:
		return lives
	}
	defer unix.Close(fd)
	if alive(fd) {
		return lives
	}
	return dead
}

// clean removes the files of dead owners, and returns how many endpoints live. The members file is locked: no
// endpoint is joining.
func (h *fabric) clean() (living int, err error) {
	names, err := h.names()
	for _, name := range names {
		if id, ok := parseFileName(name); ok {
			switch h.judge(name) {
			case lives:
				living++
			case dead:
				h.discard(name)
				h.discard(bellName(id))
			}
		} else if owner, ok := parseBellName(name); ok {
			if _, err := h.inode(fileName(owner)); errors.Is(err, fs.ErrNotExist) {
				h.discard(name)
			}
		}
	}
	h.removeDrafts(names)
	return living, err
}

// removeDrafts removes unfinished files: a process that is making one starts over.
func (h *fabric) removeDrafts(names []string) {
	for _, name := range names {
		if strings.HasPrefix(name, draftPrefix) {
			h.remove(name)
		}
	}
}

// deserted reports whether no endpoint lives here, nor is starting. The members file may be another's.
func (h *fabric) deserted() bool {
	names, err := h.names()
	return err == nil && !slices.ContainsFunc(names, func(name string) bool {
		_, ok := parseFileName(name)
		return ok && (h.seen(name) == coming || h.judge(name) == lives)
	})
}

// vanish removes the directory after the last endpoint. If another process has the lock, that process
// checks again after unlocking: so of several that leave at once the last removes it, and none waits.
func (h *fabric) vanish() {
	for range lanes { // each time another endpoint has ended meanwhile
		if !h.lockAgain() {
			return
		}
		living, err := h.clean()
		if err == nil && living == 0 {
			h.remove(membersName)
			h.removeEmpty()
		}
		h.unlock()
		if err != nil || living == 0 || !h.deserted() {
			return
		}
	}
}

// sweep removes the fabrics beside this one without a living endpoint: the name of a killed process's
// fabric may never be used again.
func (h *fabric) sweep() {
	names, _ := namesAt(h.above, filepath.Dir(h.path)) // what is not found now is the next time
	for _, name := range names {
		if name == h.name {
			continue
		}
		if strings.HasPrefix(name, draftPrefix) {
			unix.Unlinkat(h.above, name, unix.AT_REMOVEDIR) // a process that is making it starts over
			continue
		}
		beside := &fabric{dir: h.dir, members: -1}
		beside.name, beside.path = name, filepath.Join(filepath.Dir(h.path), name)
		beside.sweepAway()
	}
}

// sweepAway removes another fabric if no endpoint lives in it. A process that is about to enter it starts over.
func (h *fabric) sweepAway() {
	defer func() {
		h.above = -1 // it is another's
		h.leave()
	}()
	var err error
	if h.fd, err = h.lookUp(h.above, h.name, h.path); err != nil {
		return
	}
	if h.check(h.fd, h.path) != nil {
		return
	}
	if err = h.lockMembersFile(); err == nil {
		h.vanish()
	} else if errors.Is(err, fs.ErrNotExist) { // its maker was killed before it made the members file
		names, _ := h.names()
		h.removeDrafts(names)
		h.removeEmpty()
	}
}
