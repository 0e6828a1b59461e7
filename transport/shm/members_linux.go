package shm

import (
	"crypto/rand"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const rollName = "roll"

// draftPrefix begins the names of unfinished files: no fabric has such a name.
const draftPrefix = "."

// makeRoll makes a roll. It gets its name when it is complete: if this process is killed before, others
// find none, and clean or sweep removes the draft.
func (h *fabric) makeRoll() error {
	draft := draftPrefix + rollName + "-" + rand.Text()
	path := filepath.Join(h.path, draft)
	fd, err := h.openFile(draft, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err = h.share(fd, h.rollMode()); err != nil {
		err = named(err, "share", path)
	} else if err = allocate(fd, 0, pageBytes); err != nil {
		err = named(err, "allocate", path)
	} else {
		err = made(unix.Renameat2(h.fd, draft, h.fd, rollName, unix.RENAME_NOREPLACE), path)
	}
	h.remove(draft)
	return err
}

// lockRoll opens and locks the roll, and maps it.
func (h *fabric) lockRoll() (err error) {
	path := filepath.Join(h.path, rollName)
	if h.roll, err = h.openFile(rollName, unix.O_RDWR); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(h.roll, &st); err != nil {
		return named(err, "look at", path)
	}
	// A member of the group could otherwise have us write to another file of ours. A file without a link was just removed.
	if st.Nlink != 0 && !h.isRoll(st.Mode&unix.S_IFMT == unix.S_IFREG, uint64(st.Nlink), int(st.Uid),
		int(st.Gid), st.Mode&permissions, st.Size) {
		return fmt.Errorf("%s is no roll, which is a file of its own, of mode %#o and %d bytes: remove it", path, h.rollMode(), pageBytes)
	}
	if err := unix.Flock(h.roll, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_, _ = unix.Pread(h.roll, h.busy[:], 0)
		return fmt.Errorf("%s: %w", h.path, errLocked)
	}
	if !h.current() {
		return named(fs.ErrNotExist, "lock", path)
	}
	h.mem, err = unix.Mmap(h.roll, 0, pageBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return named(err, "map", path)
}

// lockAgain locks the open roll, if it is unlocked and still has its name: the holder of another roll's
// lock does not know of us.
func (h *fabric) lockAgain() bool {
	if unix.Flock(h.roll, unix.LOCK_EX|unix.LOCK_NB) != nil {
		return false
	}
	if !h.current() {
		h.unlock()
		return false
	}
	return true
}

// current reports whether the open roll still has its name.
func (h *fabric) current() bool {
	var st unix.Stat_t
	if unix.Fstat(h.roll, &st) != nil {
		return false
	}
	ino, err := h.inode(rollName)
	return err == nil && ino == st.Ino
}

// allocate has memory behind a part of a file: otherwise a write would be a fault (SIGBUS) when memory is exhausted.
func allocate(fd, at, n int) error {
	for {
		err := unix.Fallocate(fd, 0, int64(at), int64(n))
		if err != unix.EINTR {
			return os.NewSyscallError("fallocate", err)
		}
	}
}
