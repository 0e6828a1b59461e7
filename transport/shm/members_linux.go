package shm

import (
	"crypto/rand"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const membersName = "roll" // the members file. docs/protocol §28.1

// draftPrefix is the prefix of unfinished files: no fabric has such a name.
const draftPrefix = "."

// makeMembersFile creates the members file under a draft name, and renames it when it is complete: if this process is
// killed before that, clean or sweep removes the draft.
func (h *fabric) makeMembersFile() error {
	draft := draftPrefix + membersName + "-" + rand.Text()
	path := filepath.Join(h.path, draft)
	fd, err := h.openFile(draft, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err = h.share(fd, h.membersMode()); err != nil {
		err = named(err, "share", path)
	} else if err = allocate(fd, 0, pageBytes); err != nil {
		err = named(err, "allocate", path)
	} else {
		err = ignoreExists(unix.Renameat2(h.fd, draft, h.fd, membersName, unix.RENAME_NOREPLACE), path)
	}
	h.remove(draft)
	return err
}

// lockMembersFile opens, locks and maps the members file.
func (h *fabric) lockMembersFile() (err error) {
	path := filepath.Join(h.path, membersName)
	if h.members, err = h.openFile(membersName, unix.O_RDWR); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(h.members, &st); err != nil {
		return named(err, "look at", path)
	}
	// Otherwise a member of the group could make us write to another of our own files. A file without a link was just
	// removed.
	if st.Nlink != 0 && !h.isMembersFile(st.Mode&unix.S_IFMT == unix.S_IFREG, uint64(st.Nlink), int(st.Uid),
		int(st.Gid), st.Mode&permissions, st.Size) {
		return fmt.Errorf("%s is not a members file, which has one name, mode %#o and %d bytes: remove it", path, h.membersMode(), pageBytes)
	}
	if err := unix.Flock(h.members, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_, _ = unix.Pread(h.members, h.busy[:], 0)
		return fmt.Errorf("%s: %w", h.path, errLocked)
	}
	if !h.current() {
		return named(fs.ErrNotExist, "lock", path)
	}
	h.mem, err = unix.Mmap(h.members, 0, pageBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return named(err, "map", path)
}

// lockAgain locks the open members file, if it is unlocked and still has its name: a process that has locked another
// file with that name does not know this endpoint.
func (h *fabric) lockAgain() bool {
	if unix.Flock(h.members, unix.LOCK_EX|unix.LOCK_NB) != nil {
		return false
	}
	if !h.current() {
		h.unlock()
		return false
	}
	return true
}

// current reports whether the open members file still has its name.
func (h *fabric) current() bool {
	var st unix.Stat_t
	if unix.Fstat(h.members, &st) != nil {
		return false
	}
	ino, err := h.inode(membersName)
	return err == nil && ino == st.Ino
}

// allocate allocates memory for a part of a file: otherwise a write would fault (SIGBUS) when memory is exhausted.
func allocate(fd, at, n int) error {
	for {
		err := unix.Fallocate(fd, 0, int64(at), int64(n))
		if err != unix.EINTR {
			return os.NewSyscallError("fallocate", err)
		}
	}
}
