package outfile

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// A pipe without a reader is an error at once; one with a reader receives the text.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if f, err := Create(path, 0o666); !errors.Is(err, syscall.ENXIO) {
		t.Fatalf("Create of a pipe without a reader: %v, error %v, want %v", f, err, syscall.ENXIO)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	f, err := Create("/dev/fd/"+strconv.Itoa(int(w.Fd())), 0o666)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Put(text), f.Close()); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, len(text))
	if n, err := r.Read(b); err != nil || string(b[:n]) != string(text) {
		t.Errorf("read %q, error %v, want %q", b[:n], err, text)
	}
}
