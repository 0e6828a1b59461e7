package shm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// System errors of making an endpoint that say too little are extended by what is available and advice. Other errors
// stay unchanged.
func TestAdvice(t *testing.T) {
	for _, c := range []struct {
		err       error
		dir       string
		freeSpace freeSpace
		wantText  []string
	}{
		{unix.ENOSPC, DefaultDir, freeSpace{56 << 10, 64 << 20, 100, 200}, []string{"/dev/shm has 56 KiB left of 65536", fmt.Sprintf("needs %d to begin", newBytes>>10), "df -h", "remount,size=1G; of a container docker run --shm-size", "dir= in the URL"}},
		{unix.ENOSPC, "/x y", freeSpace{0, 60 << 10, 0, 0}, []string{"/x y has 0 KiB left of 60", "remount,size=1G), or use another"}},
		{unix.ENOSPC, "/x", freeSpace{1 << 30, 1 << 31, 4, 1000}, []string{"/x has 4 files (inodes) left of 1000", "df -i", "nr_inodes=1M)", "dir= in the URL"}},
		{named(unix.EFBIG, "enlarge", "f"), "/x", freeSpace{}, []string{fmt.Sprintf("%d KiB", fileBytes>>10), "ulimit -f unlimited"}},
		{unix.EACCES, "/x", freeSpace{}, nil},
		{unix.EMFILE, "/x", freeSpace{0, 10, 0, 10}, nil},
	} {
		got := advice(c.err, c.dir, c.freeSpace)
		for _, wantText := range c.wantText {
			if !strings.Contains(got, wantText) {
				t.Errorf("%v: %q does not contain %q", c.err, got, wantText)
			}
		}
		if (got == "") != (c.wantText == nil) {
			t.Errorf("advice on %v: %q, want one: %v", c.err, got, c.wantText != nil)
		}
	}
}

// A new endpoint needs exactly the memory and the files that the advice names.
func TestMinimumSpace(t *testing.T) {
	for options, wantText := range map[string]string{"size=60k": "KiB left of 60, and an endpoint needs", "nr_inodes=4": "files (inodes) left of 4"} {
		_, err := open(Config{Name: "x", Dir: smallBy(t, options)})
		if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), wantText) {
			t.Errorf("%s: error %v, want %v with %q", options, err, unix.ENOSPC, wantText)
		}
	}
	end(mustOpen(t, Config{Name: "x", Dir: smallBy(t, fmt.Sprintf("size=%d,nr_inodes=%d", newBytes, newFiles+1))})) // one more for the root of the file system
	if _, err := open(Config{Name: "x", Dir: smallBy(t, fmt.Sprintf("size=%d", newBytes-pageBytes))}); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("with less memory than the advice names: error %v, want %v", err, unix.ENOSPC)
	}
	if _, err := open(Config{Name: "x", Dir: smallBy(t, fmt.Sprintf("nr_inodes=%d", newFiles))}); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("with fewer files than the advice names: error %v, want %v", err, unix.ENOSPC)
	}
}

// If the limit on file sizes is less than an endpoint's file, the error says how to change it.
func TestFileSizeLimit(t *testing.T) {
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	dir := ownDir(t)
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: fileBytes - 1, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	_, err := open(Config{Name: "x", Dir: dir})
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, unix.EFBIG) || !strings.Contains(err.Error(), "ulimit -f unlimited") {
		t.Error(err)
	}
}

// A path for shared memory that does not exist or is not a directory is reported with advice.
func TestNoDir(t *testing.T) {
	here := t.TempDir()
	file := filepath.Join(here, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, wantText := range map[string]string{filepath.Join(here, "none"): "make it first", file: "is not a directory", filepath.Join(file, "x"): "not a directory"} {
		if _, err := open(Config{Name: "x", Dir: dir}); err == nil || !strings.Contains(err.Error(), "shm: dir="+dir) || !strings.Contains(err.Error(), wantText) {
			t.Errorf("open with dir=%s: error %v, want one containing %q", dir, err, wantText)
		}
	}
	if err := missingDir(DefaultDir, fs.ErrNotExist); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "mount -t tmpfs tmpfs /dev/shm") {
		t.Error(err)
	}
}
