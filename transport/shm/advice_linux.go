package shm

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// left is the free and the total space of a file system.
type left struct {
	bytes, allBytes uint64 // of 0 in all there is no limit
	files, allFiles uint64 // the same
}

const (
	newBytes = atRings + pageBytes // what an endpoint and its members file take to begin with
	newFiles = 5                   // two directories, the members file, the file and the pipe
)

// advised is an error of making an endpoint in a directory, with what to do where the system's does not say it.
func advised(err error, dir string) error {
	var st unix.Statfs_t
	_ = unix.Statfs(dir, &st) // all is 0 then
	size := uint64(st.Bsize)
	text := advice(err, dir, left{st.Bavail * size, st.Blocks * size, st.Ffree, st.Files})
	if text == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, text)
}

// advice says what to do about an error of making an endpoint. It is empty where the error says that itself.
func advice(err error, dir string, l left) string {
	const another = "or use another directory (dir= in the URL, the same for all processes of the fabric)"
	switch {
	case errors.Is(err, unix.EFBIG):
		return fmt.Sprintf("this process may not have files of %d KiB, as that of an endpoint is, though it takes little of that: ulimit -f unlimited (LimitFSIZE= of a systemd unit)", fileBytes>>10)
	case !errors.Is(err, unix.ENOSPC):
		return ""
	case l.allFiles > 0 && l.files < newFiles:
		return fmt.Sprintf("%s has %d files (inodes) left of %d, and an endpoint may need %d: remove some (df -i), allow more as root (mount -o remount,nr_inodes=1M), %s",
			dir, l.files, l.allFiles, newFiles, another)
	}
	more := "mount -o remount,size=1G"
	if dir == DefaultDir {
		more += "; of a container docker run --shm-size=1g"
	}
	return fmt.Sprintf("%s has %d KiB left of %d, and an endpoint needs %d to begin with: remove some (df -h, du -sh), give it more as root (%s), %s",
		dir, l.bytes>>10, l.allBytes>>10, newBytes>>10, more, another)
}
