package inspect

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// An answer counts as that of the process in the socket's name, so the socket must belong to the requesting user or to
// root. Root can inspect processes of all users, in the users' own directories. Any user may make a directory with any
// name in /tmp.

// ForeignError reports that a directory or a socket belongs to the wrong user. It is not read, and no socket is made
// there.
type ForeignError struct {
	Path string
	Why  string
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s %s: it is not trusted. Find its owner and remove it, or set %s to a directory that you own", e.Path, e.Why, Variable)
}

// own returns an error if a directory does not belong to this user, or another user can write to it.
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
		return &ForeignError{dir, "is not a directory"}
	case ok && uid != user && uid != 0:
		return &ForeignError{dir, fmt.Sprintf("belongs to user %d, not to %d", uid, user)}
	case info.Mode().Perm()&0o022 != 0:
		return &ForeignError{dir, fmt.Sprintf("can be written by others (its mode is %v)", info.Mode().Perm())}
	}
	return nil
}

// trusted returns an error if the user of the process at the other end of a connection, reported by the kernel, may not
// have a socket at this path. On systems without this information it returns nil.
func trusted(c net.Conn, path string) error {
	unix, ok := c.(*net.UnixConn)
	if !ok {
		return nil
	}
	uid, ok := peerUser(unix)
	if !ok || uid == os.Geteuid() || uid == 0 {
		return nil
	}
	if os.Geteuid() == 0 { // in the user's own directory
		if info, err := os.Stat(filepath.Dir(path)); err == nil {
			if of, ok := owner(info); ok && of == uid {
				return nil
			}
		}
	}
	return &ForeignError{path, fmt.Sprintf("is answered by a process of user %d", uid)}
}
