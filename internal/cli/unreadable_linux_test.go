package cli

import (
	"path/filepath"
	"strings"
	"testing"
)

// Who has no key, or another one, hears nothing: that is said at once, and is no good end.
func TestUnreadableIsSaid(t *testing.T) {
	dir := t.TempDir()
	url, ring, other := loopbackURL(t), filepath.Join(dir, "keys"), filepath.Join(dir, "other")
	for _, file := range []string{ring, other} {
		start(t, nil, "key", "new", file).end(t, exitOK)
	}
	pub := start(t, strings.NewReader(strings.Repeat("x\n", 100_000)), "pub", "-t", url+"&keys="+ring, "-rate", "2000", "x")
	for _, c := range []struct {
		says string
		args []string
	}{
		{"this bus has no keys: open it with that keyring (?keys=FILE)", []string{"sub", "-until", "2s", "-t", url, "x"}},
		{"which is not in the keyring: add its line to the file of keys=", []string{"sub", "-idle", "2s", "-t", url + "&keys=" + other, "x"}},
		{"which is not in the keyring: add its line to the file of keys=", []string{"ls", "-for", "2s", "-t", url + "&keys=" + other}},
	} {
		r := start(t, nil, c.args...)
		r.end(t, exitMismatch)
		if text := r.stderr.String(); !strings.Contains(text, c.says) {
			t.Errorf("%q says %q", c.args, text)
		}
	}
	pub.cancel(nil)
	<-pub.done
}
