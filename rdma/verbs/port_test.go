//go:build rdma && linux && cgo

package verbs

import (
	"os"
	"path/filepath"
	"testing"
)

// Packets without a posted receive are counted for each port, if the adapter counts them.
func TestNoReceive(t *testing.T) {
	sys := t.TempDir()
	dir := filepath.Join(sys, "mlx5_0", "ports", "2", "hw_counters")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]uint64{"1234\n": 1234, "0\n": 0, "": 0, "-1\n": 0, "none\n": 0} {
		if err := os.WriteFile(filepath.Join(dir, "out_of_buffer"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if n := noReceive(sys, "mlx5_0", 2); n != want {
			t.Errorf("of %q: %d, want %d", text, n, want)
		}
	}
	for _, c := range []struct {
		device string
		port   uint8
	}{{"mlx5_0", 1}, {"rxe0", 2}} {
		if n := noReceive(sys, c.device, c.port); n != 0 {
			t.Errorf("%s, port %d, which does not have the counter: %d", c.device, c.port, n)
		}
	}
}
