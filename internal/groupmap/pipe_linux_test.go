package groupmap

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A table that is a pipe without a writer is an error; Over does not wait for a writer.
func TestTableIsAPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Parse("table:" + pipe)
	if err != nil {
		t.Fatal(err)
	}
	var te *TableError
	if _, err = s.Over(16); !errors.As(err, &te) || !strings.Contains(err.Error(), "no line") {
		t.Errorf("a pipe as table: error %v, want a TableError containing \"no line\"", err)
	}
}
