//go:build !freebsd && !openbsd && !dragonfly

package rdma

import "syscall"

const errNoData = syscall.ENODATA
