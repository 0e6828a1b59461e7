//go:build unix

package inspect

import (
	"io/fs"
	"syscall"
)

// supported: sockets of this system have owners and modes.
const supported = true

// owner returns the user to which a file belongs.
func owner(info fs.FileInfo) (uid int, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}
