package inspect

import "golang.org/x/sys/unix"

// userOf returns the user of the other end of a socket: SO_PEERCRED, unix(7).
func userOf(fd int) (uid int, err error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
}
