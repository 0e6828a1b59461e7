package keyring

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// The locked byte is far behind the end: a locked byte could not be read by others.
func lockedByte() *windows.Overlapped { return &windows.Overlapped{OffsetHigh: 1 << 30} }

// openLock opens the file of a lock, or makes it.
func openLock(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
}

// lockFile locks a file, by LockFileEx, and says whether it has the lock: not if another has it.
func lockFile(f *os.File) (bool, error) {
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY,
		0, 1, 0, lockedByte())
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, os.NewSyscallError("LockFileEx", err)
}

// unlockFile unlocks a file.
func unlockFile(f *os.File) {
	windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, lockedByte())
}
