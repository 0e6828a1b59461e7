package cli

import (
	"path/filepath"
	"strings"
	"testing"
)

// A key that was to begin later than the new one is named: it will take its place.
func TestKeyRotateBeforeALaterOne(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	for _, c := range []struct {
		args  string
		warns int
	}{{"new", 0}, {"rotate -in 1h", 0}, {"rotate", 1}, {"rotate -in 2h", 0}} {
		r := runWith(t.Context(), "", append(append([]string{"key"}, strings.Fields(c.args)...), file)...)
		if n := strings.Count(r.stderr, "takes the place of the new one"); r.code != exitOK || n != c.warns {
			t.Errorf("key %s: %d warnings, want %d: %+v", c.args, n, c.warns, r)
		}
	}
}
