package inspect

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Where sockets are.

const (
	subdir = "fanfare"
	suffix = ".sock"
)

// makeDir returns the directory for this process's socket, and makes it. Nobody else may
// write to it.
func makeDir() (string, error) {
	dir, parent, err := chooseDir()
	if err != nil {
		return "", err
	}
	if parent != "" {
		if err := own(parent); err != nil { // another user's, kept by sudo
			dir = tempDir(os.Geteuid())
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", cmp.Or(own(dir), err)
	}
	return dir, own(dir)
}

// chooseDir is the directory that sockets of this process belong into, and the directory of
// the user's that it lies in, if there is one.
func chooseDir() (dir, parent string, err error) {
	where := os.Getenv(Variable)
	switch {
	case !supported || where == Off:
		return "", "", ErrOff
	case where != "":
		if !filepath.IsAbs(where) {
			return "", "", fmt.Errorf("%s is %q: it must be %s, or the absolute path of a directory", Variable, where, Off)
		}
		return where, "", nil
	}
	if run := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(run) {
		return filepath.Join(run, subdir), run, nil
	}
	return tempDir(os.Geteuid()), "", nil
}

func tempDir(uid int) string { return filepath.Join(os.TempDir(), subdir+"-"+strconv.Itoa(uid)) }

// notOwn is why a directory cannot be used that others have, or may write to: a user can make it before
// its owner does.
type notOwn string

func (e notOwn) Error() string { return string(e) }

// own says why a directory is not this user's own, such that nobody else can write to it.
func own(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	uid, ok := owner(info)
	switch {
	case !info.IsDir():
		return notOwn(fmt.Sprintf("%s is no directory", dir))
	case ok && uid != os.Geteuid():
		return notOwn(fmt.Sprintf("%s belongs to user %d, not to %d", dir, uid, os.Geteuid()))
	case info.Mode().Perm()&0o022 != 0:
		return notOwn(fmt.Sprintf("%s may be written to by others: its mode is %v", dir, info.Mode().Perm()))
	}
	return nil
}

// Dirs are the directories in which this user's processes have their sockets, to root those
// of all users; or the one that Variable names. Some may not exist.
func Dirs() []string {
	if !supported {
		return nil
	}
	if where := os.Getenv(Variable); filepath.IsAbs(where) {
		return []string{where}
	}
	dirs := []string{tempDir(os.Geteuid())}
	if run := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(run) {
		dirs = append(dirs, filepath.Join(run, subdir))
	}
	if os.Geteuid() == 0 {
		users, _ := filepath.Glob("/run/user/*/" + subdir)
		temp, _ := filepath.Glob(filepath.Join(os.TempDir(), subdir+"-[0-9]*"))
		dirs = append(append(dirs, users...), slices.DeleteFunc(temp, notOfUser)...)
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// notOfUser reports whether a directory is not the one that tempDir has for its owner.
func notOfUser(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil {
		return true
	}
	uid, ok := owner(info)
	return !ok || dir != tempDir(uid)
}

// socketPath is a name for this process's socket that no other has.
func socketPath(dir string) string {
	var random [4]byte
	rand.Read(random[:]) // it never fails
	return filepath.Join(dir, fmt.Sprintf("%d-%s%s", os.Getpid(), hex.EncodeToString(random[:]), suffix))
}

// pidOf is the process that a socket's name names, 0 if it is no such name.
func pidOf(path string) int {
	name, ok := strings.CutSuffix(filepath.Base(path), suffix)
	if !ok {
		return 0
	}
	pid, _, _ := strings.Cut(name, "-")
	n, err := strconv.Atoi(pid)
	if err != nil {
		return 0
	}
	return n
}
