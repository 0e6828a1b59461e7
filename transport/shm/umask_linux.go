package shm

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// missingBits are the permissions that the owner of our own directory or pipe lacks.
func missingBits(st *unix.Stat_t) uint32 {
	switch kind := st.Mode & unix.S_IFMT; {
	case int(st.Uid) != os.Geteuid():
		return 0
	case kind == unix.S_IFDIR:
		return 0o700 &^ st.Mode
	case kind == unix.S_IFIFO:
		return 0o600 &^ st.Mode
	}
	return 0
}

// regain restores the permissions that a umask has removed from our own directory or pipe. It changes the file that it
// has checked, even if others replace it: a file opened with O_PATH has a name in /proc (open(2)).
func regain(at int, name string) {
	var st unix.Stat_t
	if unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || missingBits(&st) == 0 {
		return
	}
	fd, err := unix.Openat(at, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if unix.Fstat(fd, &st) == nil && missingBits(&st) != 0 {
		_ = unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), st.Mode&permissions|missingBits(&st)) // a later open reports an error
	}
}
