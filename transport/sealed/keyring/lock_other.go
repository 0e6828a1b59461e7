//go:build (!unix && !windows) || aix

package keyring

import "os"

// openLock opens the file of a lock, or makes it.
func openLock(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
}

// lockFile excludes no other writer: this system has no lock that ends with its process and
// distinguishes the goroutines of one.
func lockFile(*os.File) (bool, error) { return true, nil }

// unlockFile has nothing to do.
func unlockFile(*os.File) {}
