package report

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/bench"
)

func TestFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "report.html")
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

	// Given up: nothing is left, and what was there stays.
	f, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	alone()
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "zlink")
	if err := os.Symlink("report.html", link); err != nil {
		t.Fatal(err)
	}
	if f, err = Create(path); err != nil {
		t.Fatal(err)
	}
	if content(path) != "old" {
		t.Error("the old report is gone before the new one is there")
	}
	f.Close()
	alone("report.html", "zlink")

	// Written, through a link.
	if f, err = Create(link); err != nil {
		t.Fatal(err)
	}
	if err := f.Write(&bench.Result{}); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	alone("report.html", "zlink")
	if !strings.Contains(content(path), "<!doctype html>") {
		t.Errorf("the report is %.40q", content(path))
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v, %v; it was 0600", st.Mode(), err)
	}

	// Through a link to what is not there yet.
	early := filepath.Join(dir, "early")
	if err := os.Symlink("later.html", early); err != nil {
		t.Fatal(err)
	}
	if f, err = Create(early); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Write(&bench.Result{}), f.Close()); err != nil {
		t.Fatal(err)
	}
	alone("early", "later.html", "report.html", "zlink")
	if st, err := os.Lstat(early); err != nil || st.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link is %v now, %v", st.Mode(), err)
	}

	// What others left longer than the new report is gone, though nothing takes its place.
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f = &File{path: path, out: out}
	if err := errors.Join(f.Write(&bench.Result{}), f.Close()); err != nil || !strings.HasSuffix(content(path), "</html>\n") {
		t.Errorf("%v; %d bytes", err, len(content(path)))
	}

	// Not a file.
	if f, err = Create(os.DevNull); err != nil {
		t.Fatal(err)
	}
	if err := f.Write(&bench.Result{}); err != nil {
		t.Error(err)
	}
	f.Close()
	if st, err := os.Stat(os.DevNull); err != nil || st.Mode()&fs.ModeDevice == 0 {
		t.Errorf("%s is %v, %v", os.DevNull, st.Mode(), err)
	}
	for _, bad := range []string{dir, filepath.Join(dir, "no", "report.html"), filepath.Join(path, "x")} {
		if f, err := Create(bad); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("Create(%q) = %v, %v", bad, f, err)
		}
	}
}
