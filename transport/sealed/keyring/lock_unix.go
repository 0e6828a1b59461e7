//go:build unix && !aix

package keyring

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// openLock opens the file of a lock, or makes it. In a directory where others may write it could be a
// link by which they have us change another file: that is refused.
func openLock(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		if st, ok := info.Sys().(*syscall.Stat_t); !info.Mode().IsRegular() || ok && st.Nlink > 1 {
			err = errors.New("it is no file of its own")
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// lockFile locks a file, by flock(2), and says whether it has the lock: not if another has it.
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

// unlockFile unlocks a file, also one that a child process has open, which is just being started.
func unlockFile(f *os.File) { unix.Flock(int(f.Fd()), unix.LOCK_UN) }
