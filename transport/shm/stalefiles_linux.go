package shm

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// ownerState is the state of a file's owner.
type ownerState uint8

const (
	lives    ownerState = iota // also if unknown
	starting                   // its file has no size yet; it is locked before it has
	dead                       // also if it is not a regular file, as endpoints' files are
	gone                       // the file does not exist
)

// stateByName is the state of the owner of an endpoint's file, without trying its lock.
func (h *fabric) stateByName(name string) ownerState {
	var st unix.Stat_t
	switch err := unix.Fstatat(h.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); {
	case err == unix.ENOENT:
		return gone
	case err != nil:
		return lives
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return dead
	case st.Size == 0:
		return starting
	}
	return lives
}

// stateByLock is the state of the owner of an endpoint's file. It tries the file's lock, so only the holder of the
// members file's lock may call it for a starting endpoint.
func (h *fabric) stateByLock(name string) ownerState {
	if f := h.stateByName(name); f == dead || f == gone {
		return f
	}
	fd, err := h.openFile(name, unix.O_RDONLY)
	switch {
	case errors.Is(err, fs.ErrPermission): // a file that is not shared never will be
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

// clean removes the files of dead owners, and returns the number of living endpoints. The members file must be locked,
// so that no endpoint is joining.
func (h *fabric) clean() (living int, err error) {
	names, err := h.names()
	for _, name := range names {
		if id, ok := parseFileName(name); ok {
			switch h.stateByLock(name) {
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

// removeDrafts removes unfinished files: a process that is creating one starts over.
func (h *fabric) removeDrafts(names []string) {
	for _, name := range names {
		if strings.HasPrefix(name, draftPrefix) {
			h.remove(name)
		}
	}
}

// deserted reports whether no endpoint lives in the fabric or is starting. Another process may hold the lock of the
// members file.
func (h *fabric) deserted() bool {
	names, err := h.names()
	return err == nil && !slices.ContainsFunc(names, func(name string) bool {
		_, ok := parseFileName(name)
		return ok && (h.stateByName(name) == starting || h.stateByLock(name) == lives)
	})
}

// removeDeserted removes the directory if no endpoint is left. If another process holds the lock, that process checks
// again after unlocking: so of several that leave at once the last removes it, and none waits.
func (h *fabric) removeDeserted() {
	for range lanes { // repeated only if another endpoint has ended meanwhile
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

// sweep removes other fabrics in the place that have no living endpoint: the name of a killed process's fabric may
// never be used again.
func (h *fabric) sweep() {
	names, _ := namesAt(h.above, filepath.Dir(h.path)) // the next sweep finds the others
	for _, name := range names {
		if name == h.name {
			continue
		}
		if strings.HasPrefix(name, draftPrefix) {
			unix.Unlinkat(h.above, name, unix.AT_REMOVEDIR) // a process that is creating it starts over
			continue
		}
		sibling := &fabric{dir: h.dir, members: -1}
		sibling.name, sibling.path = name, filepath.Join(filepath.Dir(h.path), name)
		sibling.sweepAway()
	}
}

// sweepAway removes another fabric if no endpoint lives in it. A process that is about to enter it starts over.
func (h *fabric) sweepAway() {
	defer func() {
		h.above = -1 // the descriptor belongs to another fabric
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
		h.removeDeserted()
	} else if errors.Is(err, fs.ErrNotExist) { // its creator was killed before it made the members file
		names, _ := h.names()
		h.removeDrafts(names)
		h.removeEmpty()
	}
}
