package shm

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// Files of a group are given their name by a rename when they are already shared, so that no other process finds an
// unshared one after its maker was killed. docs/protocol §28.1.
func TestSharedBeforeNamed(t *testing.T) {
	cfg := Config{Name: "x", Dir: ownDir(t), Group: strconv.Itoa(os.Getegid())}
	d, err := findDir(cfg)
	if err != nil {
		t.Fatal(err)
	}
	above := filepath.Dir(d.path)
	for _, c := range []struct {
		in, name string
		ready    func() error // makes its directory
	}{
		{cfg.Dir, filepath.Base(above), func() error { return nil }},
		{above, cfg.Name, func() (err error) { d.above, err = d.openAt(unix.AT_FDCWD, above, above); return err }},
		{d.path, membersName, d.open},
	} {
		if err := c.ready(); err != nil {
			t.Fatal(err)
		}
		watch, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(watch)
		if _, err := unix.InotifyAddWatch(watch, c.in, unix.IN_CREATE|unix.IN_MOVED_TO); err != nil {
			t.Fatal(err)
		}
		end(mustOpen(t, cfg))
		if how := appeared(t, watch, c.name); how != unix.IN_MOVED_TO {
			t.Errorf("%s appeared with event %#x, want %#x", filepath.Join(c.in, c.name), how, unix.IN_MOVED_TO)
		}
		d.close()
	}
}

// appeared returns the inotify event with which a name appeared in a watched directory.
func appeared(t *testing.T, watch int, name string) uint32 {
	t.Helper()
	buf := make([]byte, 64<<10)
	n, err := unix.Read(watch, buf)
	if err != nil {
		t.Fatal(err)
	}
	for buf = buf[:n]; len(buf) > 0; {
		ev := (*unix.InotifyEvent)(unsafe.Pointer(&buf[0]))
		size := unix.SizeofInotifyEvent + int(ev.Len)
		if string(bytes.TrimRight(buf[unix.SizeofInotifyEvent:size], "\x00")) == name {
			return ev.Mask &^ unix.IN_ISDIR
		}
		buf = buf[size:]
	}
	return 0
}

// If the maker of a shared fabric was killed at any point before the fabric was shared, the next endpoint completes it.
// docs/protocol §28.1.
func TestHalfShared(t *testing.T) {
	for name, leave := range map[string]func(dir string) error{
		"draft": func(dir string) error { return os.Mkdir(draftOf(dir), 0o700) },
		"shared draft": func(dir string) error {
			return errors.Join(os.Mkdir(draftOf(dir), 0o700), os.Chmod(draftOf(dir), 0o770|os.ModeSetgid))
		},
		"draft of another": func(dir string) error {
			return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o770|os.ModeSetgid), os.Mkdir(filepath.Join(dir, ".x-7"), 0o700))
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{Name: "x", Dir: ownDir(t), Group: strconv.Itoa(os.Getegid())}
			above := filepath.Join(cfg.Dir, "fanfare-g"+cfg.Group)
			if err := leave(above); err != nil {
				t.Fatal(err)
			}
			tr := mustOpen(t, cfg)
			defer end(tr)
			for _, path := range []string{above, filepath.Join(above, "x")} {
				if st, err := os.Stat(path); err != nil || st.Mode() != fs.ModeDir|fs.ModeSetgid|0o770 {
					t.Errorf("%s: mode %v, error %v, want %v", path, st.Mode(), err, fs.ModeDir|fs.ModeSetgid|0o770)
				}
			}
			if left := files(cfg.Dir); len(left) != 5 { // two directories, the members file, two files of the endpoint
				t.Errorf("files %q, want 5", left)
			}
		})
	}
}

// A private directory of this user that a member of the group has renamed to the fabric's name, or to the name of its
// draft, is not shared with the group. docs/protocol §28.1.
func TestPrivateDirectoryMoved(t *testing.T) {
	for name, to := range map[string]func(path string) string{"fabric": func(path string) string { return path }, "draft": draftOf} {
		cfg := Config{Name: "x", Dir: ownDir(t), Group: strconv.Itoa(os.Getegid())}
		private := to(filepath.Join(cfg.Dir, "fanfare-g"+cfg.Group))
		if err := errors.Join(os.Mkdir(private, 0o700), os.WriteFile(filepath.Join(private, "mine"), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		if tr, err := open(cfg); err == nil {
			end(tr)
		} else if !strings.Contains(err.Error(), "is not empty: move it to another directory") {
			t.Errorf("open with %s: error %v, want that the directory is not empty", name, err)
		}
		if st, err := os.Stat(private); err != nil || st.Mode() != fs.ModeDir|0o700 {
			t.Errorf("%s: mode %v, error %v, want %v", name, st.Mode(), err, fs.ModeDir|0o700)
		}
		if err := os.RemoveAll(private); err != nil {
			t.Fatal(err)
		}
	}
}

// A file that replaced a pipe immediately after it was made is not shared. docs/protocol §28.1.
func TestBellReplaced(t *testing.T) {
	d := dir{place: place{shared: true, id: os.Getegid()}, path: t.TempDir()}
	var err error
	if d.fd, err = openDir(unix.AT_FDCWD, d.path); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(d.fd)
	in := func(name string) string { return filepath.Join(d.path, name) }
	for name, put := range map[string]func(path string) error{
		"file": func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"link": func(path string) error {
			return errors.Join(os.WriteFile(in("to"), nil, 0o600), os.Symlink("to", path))
		},
		"pipe with another name": func(path string) error {
			return errors.Join(unix.Mkfifo(path, 0o600), os.Link(path, in("other")))
		},
	} {
		if err := put(in(name)); err != nil {
			t.Fatal(err)
		}
		before, _ := os.Stat(in(name))
		if fd, err := d.sharePipe(name, 0o620); err == nil {
			unix.Close(fd)
			t.Errorf("%s was accepted", name)
		}
		if st, err := os.Stat(in(name)); err != nil || st.Mode() != before.Mode() {
			t.Errorf("%s: mode %v, error %v, want %v", name, st.Mode(), err, before.Mode())
		}
	}
	fd, err := d.makePipe("bell", 0o620)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if st, err := os.Stat(in("bell")); err != nil || st.Mode() != fs.ModeNamedPipe|0o620 {
		t.Errorf("pipe bell: mode %v, error %v, want %v", st.Mode(), err, fs.ModeNamedPipe|0o620)
	}
	if os.Geteuid() != 0 {
		return // only root can change a file's owner
	}
	if err := errors.Join(unix.Mkfifo(in("another's"), 0o600), os.Chown(in("another's"), 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	if fd, err := d.sharePipe("another's", 0o620); !errors.Is(err, errReplaced) {
		unix.Close(fd)
		t.Errorf("a pipe of another user was accepted, error %v", err)
	}
}

// With a umask that denies files to their owner, an endpoint makes and finds its fabric, even if an earlier endpoint
// left a directory without permission to enter. Files of other users and links stay unchanged. docs/protocol §28.1.
func TestUmask(t *testing.T) {
	for _, group := range []string{"", strconv.Itoa(os.Getegid())} {
		for _, mask := range []int{0o777, 0o700, 0o300, 0o200} {
			dir := ownDir(t)
			was := unix.Umask(mask)
			tr, err := open(Config{Name: "x", Dir: dir, Group: group})
			unix.Umask(was)
			if err != nil {
				t.Fatalf("group %q, umask %#o: %v", group, mask, err)
			}
			next := mustOpen(t, Config{Name: "x", Dir: dir, Group: group})
			for _, path := range files(dir) {
				st, err := os.Stat(path)
				need := fs.FileMode(0o600)
				if err == nil && st.IsDir() {
					need = 0o700
				}
				if err != nil || st.Mode()&0o700 != need {
					t.Errorf("group %q, umask %#o: %s has mode %v, error %v, want %v for the owner", group, mask, path, st.Mode(), err, need)
				}
			}
			end(tr)
			end(next)
			above := filepath.Join(dir, place{shared: group != "", id: os.Geteuid()}.dirName())
			if group != "" {
				above = draftOf(filepath.Join(dir, "fanfare-g"+group))
			}
			if err := os.Mkdir(above, 0); err != nil { // as an earlier endpoint left it
				t.Fatal(err)
			}
			end(mustOpen(t, Config{Name: "x", Dir: dir, Group: group}))
		}
	}
	here := t.TempDir()
	victim, link := filepath.Join(here, "victim"), filepath.Join(here, "link")
	if err := errors.Join(os.Mkdir(victim, 0), os.Symlink("victim", link)); err != nil {
		t.Fatal(err)
	}
	regain(unix.AT_FDCWD, link)
	if st, err := os.Stat(victim); err != nil || st.Mode() != fs.ModeDir {
		t.Errorf("the target of a link has mode %v, error %v, want an unchanged directory", st.Mode(), err)
	}
}

// A members file that is a hard link to another file of this user is neither used nor shared. docs/protocol §28.1.
func TestMembersFileIsHardLink(t *testing.T) {
	cfg := Config{Name: "x", Dir: t.TempDir(), Group: strconv.Itoa(os.Getegid())}
	d, err := findDir(cfg)
	if err == nil {
		err = d.open()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	victim := filepath.Join(cfg.Dir, "victim")
	if err := errors.Join(os.WriteFile(victim, []byte("mine"), 0o600), os.Link(victim, filepath.Join(d.path, membersName))); err != nil {
		t.Fatal(err)
	}
	if _, err := open(cfg); err == nil || !strings.Contains(err.Error(), "is not a members file") {
		t.Errorf("open: error %v, want one containing \"is not a members file\"", err)
	}
	if st, err := os.Stat(victim); err != nil || st.Mode() != 0o600 || st.Size() != 4 {
		t.Errorf("victim's file: mode %v, %d bytes, error %v, want mode 0600 and 4 bytes", st.Mode(), st.Size(), err)
	}
}

// An endpoint does not write to a file that replaces a bell, unless it is a pipe. docs/protocol §28.8.
func TestBellIsNotAPipe(t *testing.T) {
	a, b, s := pair(t, Config{})
	for b.BeginWait(-1) == 0 {
		b.EndWait()
	}
	defer b.EndWait()
	victim, bell := filepath.Join(a.cfg.Dir, "victim"), filepath.Join(a.fabric.path, bellName(b.own.id))
	if err := errors.Join(os.WriteFile(victim, []byte("mine"), 0o600), os.Remove(bell), os.Link(victim, bell)); err != nil {
		t.Fatal(err)
	}
	rang := a.rang
	if _, err := s.Send(single([]byte("x"))); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(victim); string(got) != "mine" || a.rang != rang {
		t.Errorf("the target of a link holds %q, error %v, and the bell rang %d times, want mine and never", got, err, a.rang-rang)
	}
	if err := os.Remove(victim); err != nil {
		t.Fatal(err)
	}
}

// If another user has made a directory of that name, Open fails immediately, with advice. docs/protocol §28.1.
func TestDirectoryOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Skip(t, "only root can change the owner of a directory")
	}
	for _, group := range []string{"", "0"} {
		cfg := Config{Name: "x", Dir: t.TempDir(), Group: group}
		d, err := findDir(cfg)
		if err != nil {
			t.Fatal(err)
		}
		above, began := filepath.Dir(d.path), time.Now()
		if err := errors.Join(os.Mkdir(above, 0o700), os.Chown(above, 65534, 65534)); err != nil {
			t.Fatal(err)
		}
		_, err = open(cfg)
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "belongs to user 65534") || !strings.Contains(err.Error(), "dir=") {
			t.Errorf("group %q: error %v, want %v, with the owner 65534 and dir=", group, err, fs.ErrPermission)
		}
		if time.Since(began) >= membersWait {
			t.Error("Open retried, although nothing was going to change")
		}
	}
}
