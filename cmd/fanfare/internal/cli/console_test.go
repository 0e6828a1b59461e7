package cli

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What any number of other buses do is told at a rate that can be read, and how much of
// it was not.
func TestHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		c := newConsole(&out, "pub")
		for range linesAtOnce + 200 {
			c.heard("subscriber %d has vanished", 7)
		}
		if n := strings.Count(out.String(), "\n"); n != linesAtOnce {
			t.Errorf("%d lines at once, want %d", n, linesAtOnce)
		}
		c.gap("of other lines there are so many: %d", 0) // which are counted apart
		time.Sleep(linesEvery)
		if !strings.HasSuffix(out.String(), "pub: of other lines there are so many: 0\n") {
			t.Errorf("no gap is written: %q", out.String())
		}
		out.Reset()
		c.heard("subscriber %d has vanished", 8)
		c.heard("subscriber %d has vanished", 9)
		if got, want := out.String(), "pub: subscriber 8 has vanished (200 lines left out before)\n"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
}
