package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/cmd/fanfare/internal/losses"
)

// Packets given up count as lost even before a subscription reports the gap: loss prints them, also
// with -q, and has its own exit code.
func TestLossVerdict(t *testing.T) {
	for _, c := range []struct {
		name     string
		r        losses.Report
		wantText string
		code     int
	}{
		{"nothing", losses.Report{Processes: []losses.Process{{}}, Repairs: losses.Repairs{Missing: 7, Repaired: 7}}, "", 0},
		{"given up", losses.Report{Processes: []losses.Process{{}}, Repairs: losses.Repairs{Missing: 7, Lost: 7}}, "LOST permanently: 7 packets", exitLost},
		{"a gap", losses.Report{Processes: []losses.Process{{}}, Findings: []losses.Finding{{Kind: losses.Lost, Times: 1, Messages: 3}}}, "LOST permanently: 3 messages in 1 gap", exitLost},
	} {
		var out bytes.Buffer
		l := &loss{quiet: true}
		if err := l.show(&env{stdout: &out}, &c.r); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), c.wantText) || c.wantText == "" && out.Len() > 0 {
			t.Errorf("%s: output %q, want %q", c.name, out.String(), c.wantText)
		}
		code := 0
		if exit := (*exitError)(nil); errors.As(l.verdict(&c.r), &exit) {
			code = exit.code
		}
		if code != c.code {
			t.Errorf("%s: exit code %d, want %d", c.name, code, c.code)
		}
	}
}
