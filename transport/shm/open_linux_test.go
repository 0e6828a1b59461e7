package shm

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A symbolic link in place of a file is not followed, even if its target is valid. docs/protocol §28.1.
func TestLinksAreNotFollowed(t *testing.T) {
	a, b, s := pair(t, Config{})
	for b.BeginWait(-1) == 0 { // the event of its own join woke the endpoint
		b.EndWait()
	}
	defer b.EndWait()
	for _, name := range []string{fileName(b.own.id), bellName(b.own.id)} {
		path := filepath.Join(a.fabric.path, name)
		moved := filepath.Join(a.cfg.Dir, name)
		if err := errors.Join(os.Rename(path, moved), os.Symlink(moved, path)); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := os.Rename(moved, path); err != nil {
				t.Error(err)
			}
		}()
	}
	if p, err := a.fabric.connect(b.own.id); !errors.Is(err, unix.ELOOP) {
		t.Errorf("connect by a link: %v, error %v, want %v", p, err, unix.ELOOP)
	}
	rang := a.rang
	if _, err := s.Send(single([]byte("x"))); err != nil || a.rang != rang {
		t.Errorf("the bell rang %d times through a link, error %v, want never", a.rang-rang, err)
	}
	for _, group := range []string{"", strconv.Itoa(os.Getegid())} {
		cfg := Config{Name: "x", Dir: t.TempDir(), Group: group}
		h, err := enterFabric(cfg, noEndpoint)
		if err != nil {
			t.Fatal(err)
		}
		members, victim := filepath.Join(h.path, membersName), filepath.Join(cfg.Dir, "victim")
		h.leave()
		if err := errors.Join(os.Rename(members, victim), os.Symlink(victim, members)); err != nil {
			t.Fatal(err)
		}
		before, err := os.ReadFile(victim)
		if err != nil {
			t.Fatal(err)
		}
		if tr, err := open(cfg); !errors.Is(err, unix.ELOOP) {
			t.Errorf("group %q: %v, error %v, want %v", group, tr, err, unix.ELOOP)
		}
		if after, err := os.ReadFile(victim); err != nil || !bytes.Equal(before, after) {
			t.Errorf("group %q: the target of a link was written to, or error %v", group, err)
		}
	}
}

// A child process inherits no descriptor of the fabric: an inherited lock would make an endpoint that has ended appear
// alive. docs/protocol §28.2.
func TestNothingInherited(t *testing.T) {
	if os.Getenv(inChild) == t.Name() {
		io.Copy(io.Discard, os.Stdin)
		return
	}
	a, b, s := pair(t, Config{})
	for b.BeginWait(-1) == 0 { // the event of its own join woke the endpoint
		b.EndWait()
	}
	if _, err := s.Send(single([]byte("rings"))); err != nil || peerOf(a, b).bell < 0 {
		t.Fatalf("the bell is not open: %v", err)
	}
	b.EndWait()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^"+t.Name()+"$")
	cmd.Env = childEnv(t)
	until, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		until.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}()
	ofFabric := func(pid string) (has []string) {
		all, err := filepath.Glob("/proc/" + pid + "/fd/*")
		if err != nil || len(all) < 3 {
			t.Fatalf("process %s has the files %q, error %v, want at least 3", pid, all, err)
		}
		for _, fd := range all {
			if to, err := os.Readlink(fd); err == nil && strings.HasPrefix(to, a.cfg.Dir) {
				has = append(has, to)
			}
		}
		return has
	}
	if has := ofFabric("self"); len(has) < 8 {
		t.Fatalf("this process has only the files %q, want at least 8", has) // then the test proves nothing
	}
	if has := ofFabric(strconv.Itoa(cmd.Process.Pid)); len(has) > 0 {
		t.Errorf("the child process inherited %q, want none", has)
	}
	file := peerOf(b, a).fd
	if !alive(file) {
		t.Error("a living endpoint appears dead")
	}
	if end(a); alive(file) {
		t.Error("an endpoint that has ended appears alive because of another process")
	}
}

// No file permits more than is necessary, whatever the umask is: the group may read files and write to bells, and
// others have no access. docs/protocol §28.1.
func TestModes(t *testing.T) {
	for _, c := range []struct {
		group                     string
		dir, members, file, bells fs.FileMode
	}{
		{"", 0o700, 0o600, 0o600, 0o600},
		{strconv.Itoa(os.Getegid()), fs.ModeSetgid | 0o770, 0o660, 0o640, 0o620},
	} {
		for _, mask := range []int{0, 0o077} {
			was := unix.Umask(mask)
			tr, err := open(Config{Name: "x", Dir: ownDir(t), Group: c.group})
			unix.Umask(was)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(tr.fabric.path, fileName(tr.own.id))
			for path, want := range map[string]fs.FileMode{
				filepath.Dir(tr.fabric.path):               fs.ModeDir | c.dir,
				tr.fabric.path:                             fs.ModeDir | c.dir,
				filepath.Join(tr.fabric.path, membersName): c.members,
				file:              c.file,
				file + bellSuffix: fs.ModeNamedPipe | c.bells,
			} {
				if st, err := os.Stat(path); err != nil || st.Mode() != want {
					t.Errorf("group %q, umask %#o: %s has mode %v, want %v, %v", c.group, mask, path, st.Mode(), want, err)
				}
			}
			end(tr)
		}
	}
}

// Memory is allocated before it is written: otherwise a write would cause SIGBUS when memory is exhausted.
// docs/protocol §28.3.
func TestMemoryIsAllocatedBeforeUse(t *testing.T) {
	tr := mustOpen(t, Config{Name: "x", Dir: ownDir(t)})
	defer end(tr)
	f := tr.own
	used := func() int {
		var st unix.Stat_t
		if err := unix.Fstat(f.fd, &st); err != nil {
			t.Fatal(err)
		}
		return int(st.Blocks) * 512
	}
	chunk := func(chunk uint32, bytes int) func() error {
		return func() error {
			_, err := f.backChunk(chunk, bytes)
			return err
		}
	}
	if n := used(); n < atRings {
		t.Errorf("%d bytes at the start, want %d", n, atRings)
	}
	for _, c := range []struct {
		name string
		do   func() error
		want int // additional bytes
	}{
		{"a byte", chunk(7, 1), pageBytes},
		{"one page", chunk(7, pageBytes), 0},
		{"a byte more", chunk(7, pageBytes+1), pageBytes},
		{"a whole chunk", chunk(7, chunkBytes), chunkBytes - 2*pageBytes},
		{"fewer bytes again", chunk(7, 100), 0},
		{"another chunk", chunk(8, chunkBytes), chunkBytes},
		{"chunks of a window", func() error { return f.backRow(20, 3) }, 3 * chunkBytes},
		{"one of these", chunk(21, chunkBytes), 0},
		{"a lane", func() error { return f.openLane(9) }, ringBytes},
		{"returned positions", func() error { return f.backReturns(9) }, returnBytes},
		{"the same", func() error { return f.backReturns(9) }, 0},
	} {
		before := used()
		if err := c.do(); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if n := used() - before; n < c.want || c.want == 0 && n != 0 { // a file system with large pages may allocate more
			t.Errorf("%s: %d additional bytes, want %d", c.name, n, c.want)
		}
	}
}
