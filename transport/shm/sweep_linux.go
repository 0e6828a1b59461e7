package shm

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// fate is what has become of the owner of a file.
type fate uint8

const (
	lives  fate = iota // also where that cannot be said
	coming             // its file has no size yet: it is locked before it has
	dead               // also where it is no regular file, which none of an endpoint is
	gone               // and its file
)

// seen is what a name of an endpoint's file says of its owner, but for the lock.
func (h *hall) seen(name string) fate {
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

// judge says what has become of the owner of a file with the name of an endpoint's. Its lock is tried for
// that, so that of one that is coming nobody may ask but who has locked the roll.
func (h *hall) judge(name string) fate {
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

// clean removes what dead owners have left, and returns how many endpoints live. The roll is
// locked: nobody is about to come.
func (h *hall) clean() (living int, err error) {
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

// removeDrafts removes what is not ready: if somebody is making it, he begins anew.
func (h *hall) removeDrafts(names []string) {
	for _, name := range names {
		if strings.HasPrefix(name, draftPrefix) {
			h.remove(name)
		}
	}
}

// deserted reports whether nobody lives here, nor is about to. The roll may be another's.
func (h *hall) deserted() bool {
	names, err := h.names()
	return err == nil && !slices.ContainsFunc(names, func(name string) bool {
		_, ok := parseFileName(name)
		return ok && (h.seen(name) == coming || h.judge(name) == lives)
	})
}

// vanish removes the directory if nobody is left. Who does not get the lock leaves that to who has
// it, and he looks again when he has given it back: so of those who leave at once one finds nobody left, and none waits.
func (h *hall) vanish() {
	for range lanes { // each time somebody else has ended meanwhile
		if !h.lockAgain() {
			return
		}
		living, err := h.clean()
		if err == nil && living == 0 {
			h.remove(rollName)
			h.removeEmpty()
		}
		h.unlock()
		if err != nil || living == 0 || !h.deserted() {
			return
		}
	}
}

// sweep removes the fabrics beside this one in which nobody lives: who was killed there may have
// had a name that is never used again.
func (h *hall) sweep() {
	names, _ := namesAt(h.above, filepath.Dir(h.path)) // what is not found now is the next time
	for _, name := range names {
		if name == h.name {
			continue
		}
		if strings.HasPrefix(name, draftPrefix) {
			unix.Unlinkat(h.above, name, unix.AT_REMOVEDIR) // if somebody is making it, he begins anew
			continue
		}
		beside := &hall{dir: h.dir, roll: -1}
		beside.name, beside.path = name, filepath.Join(filepath.Dir(h.path), name)
		beside.sweepAway()
	}
}

// sweepAway removes a fabric that is not ours if nobody lives in it. Whoever is about to come
// begins anew.
func (h *hall) sweepAway() {
	defer func() {
		h.above = -1 // it is another's
		h.leave()
	}()
	var err error
	if h.fd, err = h.look(h.above, h.name, h.path); err != nil {
		return
	}
	if h.check(h.fd, h.path) != nil {
		return
	}
	if err = h.lockRoll(); err == nil {
		h.vanish()
	} else if errors.Is(err, fs.ErrNotExist) { // who has made the directory was killed before he had made the roll
		names, _ := h.names()
		h.removeDrafts(names)
		h.removeEmpty()
	}
}
