//go:build (!unix && !windows) || aix

package keyring

import "os"

// openLock opens a lock file, or creates it.
func openLock(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
}

// lockFile does not exclude other writers: this system has no lock that ends with its process and works between
// goroutines.
func lockFile(*os.File) (bool, error) { return true, nil }

// unlockFile does nothing.
func unlockFile(*os.File) {}
