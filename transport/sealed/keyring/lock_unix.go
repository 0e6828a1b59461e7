//go:build unix && !aix

package keyring

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// openLock opens a lock file, or creates it. It refuses links: in a directory that others can write to, a link could
// redirect the write to another file.
func openLock(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		if st, ok := info.Sys().(*syscall.Stat_t); !info.Mode().IsRegular() || ok && st.Nlink > 1 {
			err = errors.New("it is a link, or not a regular file")
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// lockFile locks a file with flock(2). It returns false if another process has the lock.
func lockFile(f *os.File) (bool, error) {
	for {
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err {
		case nil:
			return true, nil
		case unix.EWOULDBLOCK:
			return false, nil
		case unix.EINTR:
		default:
			return false, os.NewSyscallError("flock", err)
		}
	}
}

// unlockFile unlocks a file, even if a child process that is being started has it open.
func unlockFile(f *os.File) { unix.Flock(int(f.Fd()), unix.LOCK_UN) }
