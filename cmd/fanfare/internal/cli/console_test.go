package cli

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Lines caused by other buses are rate-limited, and the number of lines left out is reported.
func TestPeerLinesAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		c := newConsole(&out, "pub")
		for range linesAtOnce + 200 {
			c.peerLine("subscriber %d stopped answering", 7)
		}
		if n := strings.Count(out.String(), "\n"); n != linesAtOnce {
			t.Errorf("%d lines at once, want %d", n, linesAtOnce)
		}
		c.gap("%d lines of another kind", 0) // these have their own limit
		time.Sleep(linesEvery)
		if !strings.HasSuffix(out.String(), "pub: 0 lines of another kind\n") {
			t.Errorf("the gap is not written: %q", out.String())
		}
		out.Reset()
		c.peerLine("subscriber %d stopped answering", 8)
		c.peerLine("subscriber %d stopped answering", 9)
		if got, want := out.String(), "pub: subscriber 8 stopped answering (200 lines left out before)\n"; got != want {
			t.Errorf("line %q, want %q", got, want)
		}
	})
}
