package shm

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// freeSpace is the free and the total space of a file system.
type freeSpace struct {
	bytes, allBytes uint64 // allBytes 0: there is no limit
	files, allFiles uint64 // the same
}

const (
	newBytes = atRings + pageBytes // initial size of an endpoint and its members file
	newFiles = 5                   // two directories, the members file, the file and the pipe
)

// advised adds a remedy to an error of making an endpoint in a directory.
func advised(err error, dir string) error {
	var st unix.Statfs_t
	_ = unix.Statfs(dir, &st) // on an error all fields are 0
	size := uint64(st.Bsize)
	text := advice(err, dir, freeSpace{st.Bavail * size, st.Blocks * size, st.Ffree, st.Files})
	if text == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, text)
}

// advice is the remedy for an error of making an endpoint; empty if the error includes it.
func advice(err error, dir string, l freeSpace) string {
	const another = "or use another directory (dir= in the URL, the same for all processes of the fabric)"
	switch {
	case errors.Is(err, unix.EFBIG):
		return fmt.Sprintf("this process may not make files of %d KiB, the size of an endpoint's file, which is mostly unused: ulimit -f unlimited (LimitFSIZE= of a systemd unit)", fileBytes>>10)
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
