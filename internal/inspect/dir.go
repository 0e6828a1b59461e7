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

// makeDir returns the directory for this process's socket, and makes it. Only this user may write to it.
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

// place is a directory in which processes of a user have their sockets.
type place struct {
	dir  string
	user int
}

// Dirs are the directories in which this user's processes have their sockets, to root those
// of all users; or the one that Variable names. Some may not exist.
func Dirs() (dirs []string) {
	for _, p := range places() {
		dirs = append(dirs, p.dir)
	}
	return dirs
}

func places() []place {
	if !supported {
		return nil
	}
	user := os.Geteuid()
	if where := os.Getenv(Variable); filepath.IsAbs(where) {
		return []place{{where, user}}
	}
	all := []place{{tempDir(user), user}}
	if run := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(run) && own(run) == nil { // sudo and su keep another user's
		all = append(all, place{filepath.Join(run, subdir), user})
	}
	if user == 0 {
		run, _ := filepath.Glob("/run/user/[0-9]*/" + subdir)
		temp, _ := filepath.Glob(filepath.Join(os.TempDir(), subdir+"-[0-9]*"))
		for _, dir := range append(run, temp...) {
			if p, ok := placeOf(dir); ok {
				all = append(all, p)
			}
		}
	}
	slices.SortFunc(all, func(a, b place) int { return strings.Compare(a.dir, b.dir) })
	return slices.CompactFunc(all, func(a, b place) bool { return a.dir == b.dir })
}

// placeOf is the place of another user, if the directory is one: its name has the user's number, and it belongs to that
// user.
func placeOf(dir string) (place, bool) {
	of := strings.TrimPrefix(filepath.Base(dir), subdir+"-")
	if filepath.Base(dir) == subdir {
		of = filepath.Base(filepath.Dir(dir))
	}
	uid, err := strconv.Atoi(of)
	return place{dir, uid}, err == nil && uid != os.Geteuid() && belongs(dir, uid) == nil
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
