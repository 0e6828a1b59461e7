package inspect

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// Who is believed. What a socket answers is shown as what the process of its name says, so
// it must be that of the user who looks, or root's. Root looks at all users: each at the
// places of their own. Anybody may make a directory in /tmp, under any name.

// ForeignError says that a directory or a socket is not whose it should be. Nothing of it
// is read, and no socket is made there.
type ForeignError struct {
	Path string
	Why  string
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s %s: nothing there is believed. See who made it and remove it, or set %s to a directory of your own", e.Path, e.Why, Variable)
}

// own says why a directory is not this user's own, such that nobody else can write to it.
func own(dir string) error { return belongs(dir, os.Geteuid()) }

// belongs says why a directory does not belong to a user or to root, such that nobody else
// can write to it.
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

// trusted says why the process on the other side of a connection is not to be believed, in
// whose socket's place it answers. The kernel says who it is, where it can.
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
