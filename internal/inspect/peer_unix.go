//go:build linux || darwin

package inspect

import "net"

// peerUser returns the user of the other end of a connection, from the kernel.
func peerUser(c *net.UnixConn) (uid int, ok bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, false
	}
	raw.Control(func(fd uintptr) { uid, err = userOf(int(fd)) })
	return uid, err == nil
}
