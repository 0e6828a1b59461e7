//go:build freebsd || openbsd || dragonfly

package rdma

import "syscall"

// These systems have no ENODATA.
const errNoData = syscall.ENOENT
