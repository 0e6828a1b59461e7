//go:build !linux

package shm

// DescribeDir returns ErrUnsupported.
func DescribeDir(string) (Memory, error) { return Memory{}, ErrUnsupported }
