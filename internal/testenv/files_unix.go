//go:build unix

package testenv

import (
	"os"
	"syscall"
	"testing"
)

// FewFiles limits the free file descriptors of this process to a number, so that one more fails with EMFILE, until the
// returned function is called or the test ends. Descriptors closed in between are free as well.
func FewFiles(t *testing.T, free int) (restore func()) {
	t.Helper()
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	var last *os.File
	for range free + 1 { // the kernel returns the lowest
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		last = f
	}
	few := old
	set(&few.Cur, last.Fd())
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	restore = func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(restore)
	return restore
}

// set sets a field of syscall.Rlimit, which is signed on some systems.
func set[T int64 | uint64](x *T, n uintptr) { *x = T(n) }
