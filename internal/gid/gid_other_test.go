//go:build !amd64 && !arm64

package gid

import "testing"

// A process that runs for long starts more goroutines than 32 bits can count.
func TestNumber(t *testing.T) {
	for trace, want := range map[string]uint64{
		"goroutine 1 [running]:\nmain.main()":      1,
		"goroutine 4294967338 [running]:\nmain.f(": 1<<32 + 42,
	} {
		if id := number([]byte(trace)); id != want {
			t.Errorf("%q is of goroutine %d, want %d", trace, id, want)
		}
	}
}
