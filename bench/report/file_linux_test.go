package report

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/fanfaremq/fanfare/bench"
)

// A pipe that nobody reads is an error at once; one that somebody reads gets the report.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if f, err := Create(path); !errors.Is(err, syscall.ENXIO) {
		t.Fatalf("%v, %v", f, err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	f, err := Create("/dev/fd/" + strconv.Itoa(int(w.Fd())))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Write(&bench.Result{}), f.Close()); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 15)
	if n, err := r.Read(b); err != nil || string(b[:n]) != "<!doctype html>" {
		t.Errorf("%q, %v", b[:n], err)
	}
}
