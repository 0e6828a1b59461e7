package doctor

import "golang.org/x/sys/unix"

// memlockLimit is RLIMIT_MEMLOCK in bytes, -1 without one.
func memlockLimit() int64 {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &r); err != nil || r.Cur >= 1<<62 {
		return -1
	}
	return int64(r.Cur)
}
