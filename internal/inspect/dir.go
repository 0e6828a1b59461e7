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

// Parts of the sockets' paths.

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
		if err := own(parent); err != nil { // the variable is that of another user, kept by sudo
			dir = tempDir(os.Geteuid())
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", cmp.Or(own(dir), err)
	}
	return dir, own(dir)
}

// chooseDir returns the directory for sockets of this process, and the user's directory that contains it, if there is
// one.
func chooseDir() (dir, parent string, err error) {
	where := os.Getenv(Variable)
	switch {
	case !supported || where == Off:
		return "", "", ErrOff
	case where != "":
		if !filepath.IsAbs(where) {
			return "", "", fmt.Errorf("%s is %q: it must be %s or the absolute path of a directory", Variable, where, Off)
		}
		return where, "", nil
	}
	if run := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(run) {
		return filepath.Join(run, subdir), run, nil
	}
	return tempDir(os.Geteuid()), "", nil
}

func tempDir(uid int) string { return filepath.Join(os.TempDir(), subdir+"-"+strconv.Itoa(uid)) }

// userDir is a directory with the sockets of a user's processes.
type userDir struct {
	dir  string
	user int
}

// Dirs returns the directories with the sockets of this user's processes, for root those of all users, or the directory
// in Variable. Some may not exist.
func Dirs() (dirs []string) {
	for _, p := range userDirs() {
		dirs = append(dirs, p.dir)
	}
	return dirs
}

func userDirs() []userDir {
	if !supported {
		return nil
	}
	user := os.Geteuid()
	if where := os.Getenv(Variable); filepath.IsAbs(where) {
		return []userDir{{where, user}}
	}
	all := []userDir{{tempDir(user), user}}
	if run := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(run) && own(run) == nil { // sudo and su keep the variable of another user
		all = append(all, userDir{filepath.Join(run, subdir), user})
	}
	if user == 0 {
		run, _ := filepath.Glob("/run/user/[0-9]*/" + subdir)
		temp, _ := filepath.Glob(filepath.Join(os.TempDir(), subdir+"-[0-9]*"))
		for _, dir := range append(run, temp...) {
			if p, ok := otherUserDir(dir); ok {
				all = append(all, p)
			}
		}
	}
	slices.SortFunc(all, func(a, b userDir) int { return strings.Compare(a.dir, b.dir) })
	return slices.CompactFunc(all, func(a, b userDir) bool { return a.dir == b.dir })
}

// otherUserDir returns the directory of another user, if dir is one: its name has the user's number, and it belongs to
// that user.
func otherUserDir(dir string) (userDir, bool) {
	of := strings.TrimPrefix(filepath.Base(dir), subdir+"-")
	if filepath.Base(dir) == subdir {
		of = filepath.Base(filepath.Dir(dir))
	}
	uid, err := strconv.Atoi(of)
	return userDir{dir, uid}, err == nil && uid != os.Geteuid() && belongs(dir, uid) == nil
}

// socketPath returns a unique path for this process's socket.
func socketPath(dir string) string {
	var random [4]byte
	rand.Read(random[:]) // it never fails
	return filepath.Join(dir, fmt.Sprintf("%d-%s%s", os.Getpid(), hex.EncodeToString(random[:]), suffix))
}

// pidOf returns the process in a socket's name, 0 if there is none.
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
