package inspect

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// impostor makes a directory with a socket, both of user nobody, that answers requests with a bus "evil".
func impostor(t *testing.T, dir string) (socket string) {
	t.Helper()
	socket = filepath.Join(dir, "4711-aa.sock")
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755), os.Chown(dir, nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	type result struct {
		l   *net.UnixListener
		err error
	}
	made := make(chan result)
	go func() { // a thread becomes nobody, listens (SO_PEERCRED has its user), and ends
		runtime.LockOSThread()
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), nobody, ^uintptr(0)); errno != 0 {
			made <- result{nil, errno}
			return
		}
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
		made <- result{l, err}
	}()
	r := <-made
	if r.err != nil {
		t.Fatal(r.err)
	}
	t.Cleanup(func() { r.l.Close() })
	if err := os.Chmod(socket, 0o777); err != nil {
		t.Fatal(err)
	}
	line, err := json.Marshal(&Snapshot{Version: Version, Process: Process{PID: 4711, Program: "fanfare"}, Buses: []Bus{{Identity: Identity{Name: "evil"}}}})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := r.l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if _, err := bufio.NewReader(c).ReadString('\n'); err == nil {
					c.Write(append(line, '\n'))
				}
			}()
		}
	}()
	return socket
}

// asRoot moves the directories of sockets into a directory of the test that other users can access. It skips the test
// without root.
func asRoot(t *testing.T) (temp string) {
	if os.Geteuid() != 0 {
		testenv.Skip(t, "it takes root to become another user")
	}
	temp = t.TempDir()
	for x := temp; len(x) > len(os.TempDir()); x = filepath.Dir(x) {
		if err := os.Chmod(x, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(Variable, "")
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("TMPDIR", temp)
	return temp
}

// seenIn returns the results of ReadAll in a directory: names of buses, and errors.
func seenIn(t *testing.T, dir string, where ...string) (buses []string, errs []error) {
	t.Helper()
	all, err := ReadAll(t.Context(), where...)
	if err != nil {
		return nil, []error{err}
	}
	for _, x := range all {
		switch {
		case !strings.HasPrefix(x.Socket, dir): // of another test, in /run/user
		case x.Err != nil:
			errs = append(errs, x.Err)
		default:
			buses = append(buses, names(x.Snapshot)...)
		}
	}
	return buses, errs
}

// A directory for another user's sockets, or a socket in it, is not trusted if a third user made it: the error has its
// owner. The processes of that other user log a warning with the reason why they have no socket.
func TestForeignDirectory(t *testing.T) {
	temp := asRoot(t)
	dir := tempDir(0)
	impostor(t, dir)
	var foreign *ForeignError
	buses, errs := seenIn(t, temp)
	if len(buses) != 0 || len(errs) != 1 || !errors.As(errs[0], &foreign) || !strings.Contains(errs[0].Error(), dir+" belongs to user 65534, not to 0: it is not trusted. Find its owner") {
		t.Errorf("buses %q, errors %v, want no bus and one error on the foreign owner of %s", buses, errs, dir)
	}
	var out strings.Builder
	var r registry
	r.add(&source{}, slog.New(slog.NewTextHandler(&out, nil)))()
	if s := out.String(); !strings.Contains(s, "level=WARN") || !strings.Contains(s, "belongs to user 65534") {
		t.Errorf("log %q, want a warning that the directory belongs to user 65534", s)
	}
}

// A socket in the right directory is not trusted either if another user answers.
func TestForeignSocket(t *testing.T) {
	temp := asRoot(t)
	dir := tempDir(0)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "1-aa.sock")
	if err := os.Symlink(impostor(t, filepath.Join(temp, "elsewhere")), link); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("%s is answered by a process of user %d", link, nobody)
	for _, where := range [][]string{nil, {dir}, {link}} {
		if buses, errs := seenIn(t, temp, where...); len(buses) != 0 || len(errs) != 1 || !strings.Contains(errs[0].Error(), want) {
			t.Errorf("at %q: buses %q, errors %v, want no bus and one error containing %q", where, buses, errs, want)
		}
	}
}

// Root sees the processes of other users in their directories, not in the directory of a third user.
func TestRootSeesOthers(t *testing.T) {
	temp := asRoot(t)
	impostor(t, tempDir(nobody))
	impostor(t, tempDir(12345))
	if buses, errs := seenIn(t, temp); len(buses) != 1 || len(errs) != 0 {
		t.Errorf("buses %q, errors %v, want one bus and no error", buses, errs)
	}
	if dirs := Dirs(); !slices.Contains(dirs, tempDir(nobody)) || slices.Contains(dirs, tempDir(12345)) {
		t.Errorf("directories are %q, want the one of user 65534, without the one of user 12345", dirs)
	}
}

// XDG_RUNTIME_DIR of another user, which su keeps, is ignored: this user's processes do not use it.
func TestForeignRuntimeDir(t *testing.T) {
	temp := asRoot(t)
	run := filepath.Join(temp, "run")
	impostor(t, filepath.Join(run, subdir))
	if err := os.Chown(run, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", run)
	if buses, errs := seenIn(t, temp); len(buses)+len(errs) != 0 {
		t.Errorf("buses %q, errors %v, want neither", buses, errs)
	}
}
