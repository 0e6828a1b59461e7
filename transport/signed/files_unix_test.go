//go:build unix

package signed

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A pipe and a device are rejected immediately. docs/protocol §29.8.
func TestNotARegularFile(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{pipe, "/dev/null"} {
		_, trust := readFile(file, &secrecy{})
		_, key := ReadKey(file)
		for _, err := range []error{trust, key} {
			if file == "/dev/null" && err == key {
				continue // its mode is rejected, too
			}
			if err == nil || !strings.Contains(err.Error(), "not a regular file") {
				t.Errorf("%s: error %v, want one containing \"not a regular file\"", file, err)
			}
		}
	}
}
