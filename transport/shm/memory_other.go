//go:build !linux

package shm

// LookAt returns ErrUnsupported.
func LookAt(string) (Memory, error) { return Memory{}, ErrUnsupported }
