package cli

import (
	"strings"
	"testing"
)

// With two -t sub reports the counters of each leg; URLs that cannot be legs are refused.
func TestLegs(t *testing.T) {
	url := memURL(t)
	r := runWith(t.Context(), "", "sub", "-t", url+"_a", "-t", url+"_b", "-until", "50ms", "-json", "x")
	if r.code != 0 || !strings.Contains(r.stdout, `"legs":[{"url":"`+url+`_a","up":true`) || !strings.Contains(r.stdout, url+"_b") {
		t.Errorf("sub on two legs ended with %+v, want exit code 0 and both legs in the summary", r)
	}
	for _, c := range []struct{ args, wantText string }{
		{"sub x", "it is given twice"},
		{"pub x", "it is given twice"},
		{"tap", "use -t once"},
	} {
		args := append(strings.Fields(c.args), "-t", url, "-t", url)
		if r := runWith(t.Context(), "", args...); r.code != exitUsage || !strings.Contains(r.stderr, c.wantText) {
			t.Errorf("%s ended with %+v, want exit code %d and %q", c.args, r, exitUsage, c.wantText)
		}
	}
}
