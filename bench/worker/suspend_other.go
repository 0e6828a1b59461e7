//go:build !unix

package worker

import "errors"

// CanSuspend reports whether this system can stop a process for a while.
const CanSuspend = false

// Suspend fails.
func (p *Process) Suspend() error { return errors.ErrUnsupported }

// Resume fails.
func (p *Process) Resume() error { return errors.ErrUnsupported }
