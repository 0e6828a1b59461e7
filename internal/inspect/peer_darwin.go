package inspect

import "golang.org/x/sys/unix"

// userOf returns the user of the other end of a socket: LOCAL_PEERCRED, unix(4).
func userOf(fd int) (uid int, err error) {
	cred, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
}
