//go:build unix

package worker

import "syscall"

// CanSuspend reports whether this system can stop a process for a while.
const CanSuspend = true

// Suspend stops the worker as it is (SIGSTOP), until Resume.
func (p *Process) Suspend() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume lets it go on.
func (p *Process) Resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }
