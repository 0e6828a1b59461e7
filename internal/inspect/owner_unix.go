//go:build unix

package inspect

import (
	"io/fs"
	"syscall"
)

// supported: sockets have owners and modes here.
const supported = true

// owner is the user that a file belongs to.
func owner(info fs.FileInfo) (uid int, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}
