package report

import (
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
	if err := f.Write(&bench.Throughput{}); err != nil {
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

	// Not a file.
	if f, err = Create(os.DevNull); err != nil {
		t.Fatal(err)
	}
	if err := f.Write(&bench.Throughput{}); err != nil {
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
