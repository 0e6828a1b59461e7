package shm

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// makePipe creates a named pipe with a mode, and opens it for reading and writing, so that it never reports end of file
// when writers close it.
func (d *dir) makePipe(name string, mode uint32) (fd int, err error) {
	path := filepath.Join(d.path, name)
	if err := unix.Mkfifoat(d.fd, name, 0o600); err != nil {
		return -1, named(err, "make pipe", path)
	}
	return d.sharePipe(name, mode)
}

// sharePipe opens and shares a pipe that we have just created. Another member of the group may have replaced it by
// another of our files, which must not be shared.
func (d *dir) sharePipe(name string, mode uint32) (fd int, err error) {
	regain(d.fd, name)
	path := filepath.Join(d.path, name)
	if fd, err = d.openFile(name, unix.O_RDWR); err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil &&
		(st.Mode&unix.S_IFMT != unix.S_IFIFO || int(st.Uid) != os.Geteuid() || st.Nlink != 1) {
		err = errReplaced
	}
	if err == nil {
		err = d.share(fd, mode)
	}
	if err != nil {
		unix.Close(fd)
		return -1, named(err, "share", path)
	}
	return fd, nil
}

var errReplaced = errors.New("another file has replaced it: ask the members of the group, and try again")
