package shm

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// clean removes what dead owners have left, and returns how many endpoints live. The roll is
// locked: nobody is about to come.
func (h *hall) clean() (living int, err error) {
	names, err := h.names()
	for _, name := range names {
		if id, ok := parseFileName(name); ok {
			fd, err := h.openFile(name, unix.O_RDONLY)
			switch {
			case err == nil && alive(fd):
				living++
			case err == nil, errors.Is(err, fs.ErrPermission): // one that is not shared never will be
				h.remove(name)
				h.remove(bellName(id))
			case !errors.Is(err, fs.ErrNotExist):
				living++ // whose it is cannot be said
			}
			if err == nil {
				unix.Close(fd)
			}
		} else if owner, ok := parseBellName(name); ok {
			if _, err := h.inode(fileName(owner)); errors.Is(err, fs.ErrNotExist) {
				h.remove(name)
			}
		} else if strings.HasPrefix(name, draftPrefix) {
			h.remove(name) // if somebody is making it, he begins anew
		}
	}
	return living, err
}

// vanish removes the directory if nobody is left. It is no failure if that has to wait for
// another one.
func (h *hall) vanish() {
	if unix.Flock(h.roll, unix.LOCK_EX|unix.LOCK_NB) != nil {
		return
	}
	if living, err := h.clean(); err == nil && living == 0 {
		h.remove(rollName)
		h.removeEmpty()
	}
	h.unlock()
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
	} else if errors.Is(err, fs.ErrNotExist) {
		h.removeEmpty()
	}
}
