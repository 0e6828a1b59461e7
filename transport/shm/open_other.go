//go:build !linux

package shm

import "github.com/fanfaremq/fanfare/transport"

// Open returns ErrUnsupported.
func Open(Config) (transport.Transport, error) { return nil, ErrUnsupported }
