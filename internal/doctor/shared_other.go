//go:build !linux

package doctor

import "errors"

// LookAtShared says that there is none: shm:// needs Linux.
func LookAtShared(dir string) SharedMemory {
	return SharedMemory{Dir: dir, Err: errors.ErrUnsupported}
}
