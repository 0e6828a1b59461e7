package outfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var text = []byte("something new\n")

func TestFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	content := func(path string) string {
		t.Helper()
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	alone := func(names ...string) {
		t.Helper()
		var got []string
		list, _ := os.ReadDir(dir)
		for _, e := range list {
			got = append(got, e.Name())
		}
		if strings.Join(got, " ") != strings.Join(names, " ") {
			t.Errorf("the directory holds %v, want %v", got, names)
		}
	}

	// Discarded: no new file is left, and the old contents stay.
	f, err := Create(path, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	alone()
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "zlink")
	if err := os.Symlink("file", link); err != nil {
		t.Fatal(err)
	}
	if f, err = Create(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if content(path) != "old" {
		t.Error("the old text is gone before the new one is complete")
	}
	f.Close()
	alone("file", "zlink")

	// Written, through a link.
	if f, err = Create(link, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := f.Put(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	alone("file", "zlink")
	if content(path) != string(text) {
		t.Errorf("file holds %.40q, want %.40q", content(path), text)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("file's mode is %v, error %v, want 0600 as before", st.Mode(), err)
	}

	// Through a link to a file that does not exist yet.
	early := filepath.Join(dir, "early")
	if err := os.Symlink("later", early); err != nil {
		t.Fatal(err)
	}
	if f, err = Create(early, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Put(text), f.Close()); err != nil {
		t.Fatal(err)
	}
	alone("early", "file", "later", "zlink")
	if st, err := os.Lstat(early); err != nil || st.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("link's mode is %v, error %v, want a symbolic link", st.Mode(), err)
	}

	// A longer old text is truncated.
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f = &File{path: path, out: out}
	if err := errors.Join(f.Put(text), f.Close()); err != nil || content(path) != string(text) {
		t.Errorf("Put and Close: error %v, the file has %d bytes, want %d", err, len(content(path)), len(text))
	}

	// Not a regular file.
	if f, err = Create(os.DevNull, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := f.Put(text); err != nil {
		t.Error(err)
	}
	f.Close()
	if st, err := os.Stat(os.DevNull); err != nil || st.Mode()&fs.ModeDevice == 0 {
		t.Errorf("%s has mode %v, error %v, want a device", os.DevNull, st.Mode(), err)
	}
	for _, bad := range []string{dir, filepath.Join(dir, "no", "file"), filepath.Join(path, "x")} {
		if f, err := Create(bad, 0o666); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("Create(%q) = %v, error %v, want an error that contains the path", bad, f, err)
		}
	}
}
