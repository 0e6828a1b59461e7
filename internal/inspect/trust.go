package inspect

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// Trust in sockets. An answer is shown as that of the process in the socket's name, so the socket must belong to
// the user that asks, or to root. Root sees all users: each at that user's own places. Any user may make a
// directory in /tmp, under any name.

// ForeignError reports that a directory or a socket belongs to the wrong user. Nothing of it
// is read, and no socket is made there.
type ForeignError struct {
	Path string
	Why  string
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s %s: it is not trusted. Find its owner and remove it, or set %s to a directory of your own", e.Path, e.Why, Variable)
}

// own returns an error if a directory is not this user's own, or another user can write to it.
func own(dir string) error { return belongs(dir, os.Geteuid()) }

// belongs returns an error if a directory does not belong to a user or to root, or another user can write to it.
func belongs(dir string, user int) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	uid, ok := owner(info)
	switch {
	case !info.IsDir():
		return &ForeignError{dir, "is no directory"}
	case ok && uid != user && uid != 0:
		return &ForeignError{dir, fmt.Sprintf("belongs to user %d, not to %d", uid, user)}
	case info.Mode().Perm()&0o022 != 0:
		return &ForeignError{dir, fmt.Sprintf("may be written to by others (its mode is %v)", info.Mode().Perm())}
	}
	return nil
}

// trusted returns an error if the process at the other end of a connection is not to be trusted with the place of its
// socket. The kernel names its user, where it can.
func trusted(c net.Conn, path string) error {
	unix, ok := c.(*net.UnixConn)
	if !ok {
		return nil
	}
	uid, ok := peerUser(unix)
	if !ok || uid == os.Geteuid() || uid == 0 {
		return nil
	}
	if os.Geteuid() == 0 { // in that user's own directory
		if info, err := os.Stat(filepath.Dir(path)); err == nil {
			if of, ok := owner(info); ok && of == uid {
				return nil
			}
		}
	}
	return &ForeignError{path, fmt.Sprintf("is answered by a process of user %d", uid)}
}
