//go:build unix

package signed

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A pipe and a device are refused, and not waited for. docs/protocol §29.8.
func TestNoRegularFile(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{pipe, "/dev/null"} {
		_, trust := readFile(file, &secrecy{})
		_, key := ReadKey(file)
		for _, err := range []error{trust, key} {
			if file == "/dev/null" && err == key {
				continue // its mode is refused, too
			}
			if err == nil || !strings.Contains(err.Error(), "no regular file") {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
}
