package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// On a full disk no partial file remains, which would make the next attempt fail.
func TestDictOnAFullDisk(t *testing.T) {
	testenv.Slow(t)
	_, lines := dictFile(t)
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		testenv.Skip(t, "cannot mount a tmpfs: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	full, dict := filepath.Join(dir, "full"), filepath.Join(dir, "dict")
	writeFile(t, full, make([]byte, 64<<10))
	for _, flags := range [][]string{nil, {"-force"}} {
		args := append(append([]string{"dict", "-q"}, flags...), "-o", dict, lines)
		if r := runWith(testContext(t), "", args...); r.code != 1 || !strings.Contains(r.stderr, dict+": no space left on device") {
			t.Errorf(`dict %v on a full disk ended with %+v, want exit code 1 and "no space left on device"`, flags, r)
		}
		if _, err := os.Lstat(dict); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("dict %v: the file remains after a failure: %v", flags, err)
		}
	}
	old := []byte("the one of before") // must stay
	if err := errors.Join(os.Truncate(full, 60<<10), os.WriteFile(dict, old, 0o600), os.WriteFile(full, make([]byte, 60<<10), 0o600)); err != nil {
		t.Fatal(err)
	}
	if r := runWith(testContext(t), "", "dict", "-q", "-force", "-o", dict, lines); r.code != 1 || !strings.Contains(r.stderr, dict+": no space left on device") {
		t.Errorf(`dict -force over a file on a full disk ended with %+v, want exit code 1 and "no space left on device"`, r)
	}
	if b, err := os.ReadFile(dict); err != nil || string(b) != string(old) {
		t.Errorf("the old dictionary is %.40q, error %v, want it unchanged", b, err)
	}
	if err := errors.Join(os.Remove(full), os.Remove(dict)); err != nil {
		t.Fatal(err)
	}
	if r := runWith(testContext(t), "", "dict", "-q", "-o", dict, lines); r.code != 0 {
		t.Errorf("dict ended with %+v, want exit code 0", r)
	}
}

// With -force a target that is not a regular file is not removed.
func TestDictToADevice(t *testing.T) {
	_, lines := dictFile(t)
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if r := runWith(testContext(t), "", "dict", "-q", "-force", "-o", pipe, lines); r.code != 0 {
		t.Errorf("dict into a pipe ended with %+v, want exit code 0", r)
	}
	if _, err := os.Lstat(pipe); err != nil {
		t.Error(err)
	}
}
