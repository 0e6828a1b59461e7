package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A keyring is made once, rotated and shown; secrets are in the file, which its owner alone may read, and
// nowhere else. docs/protocol.md §27.1, §27.7.
func TestKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	run := func(code int, says string, args ...string) string {
		t.Helper()
		r := runWith(t.Context(), "", append([]string{"key"}, append(args, file)...)...)
		if r.code != code || !strings.Contains(r.stdout+r.stderr, says) {
			t.Fatalf("key %v: exit code %d, %s%s, want %d and %q", args, r.code, r.stdout, r.stderr, code, says)
		}
		if regexp.MustCompile(`[0-9a-f]{32}`).MatchString(r.stdout + r.stderr) {
			t.Fatalf("key %v shows a secret: %s%s", args, r.stdout, r.stderr)
		}
		return r.stdout
	}
	run(2, "no such file", "rotate")
	run(2, "no such file", "show")
	run(0, "sends and receives", "new")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info.Mode(), err)
	}
	run(2, "never overwritten: name another file", "new")
	run(0, "begins in ", "rotate", "-in", "1h", "-overlap", "2h")
	if out := run(0, "sends and receives", "show", "-json"); strings.Count(out, "\n") != 2 || !strings.Contains(out, `"not_after":"`) {
		t.Errorf("%s", out)
	}
	if out := run(0, "", "rotate", "-q", "-in", "0s"); out != "" {
		t.Errorf("-q writes %q", out)
	}
	if out := run(0, "", "show"); strings.Count(out, "0x") != 3 {
		t.Errorf("%s", out)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("after rotate: %v, %v", info.Mode(), err)
	}
	for _, c := range []struct {
		keys, says string
		args       []string
	}{
		{"1 " + strings.Repeat("ab", 32) + " - 2020-01-01T00:00:00Z\n2 " + strings.Repeat("cd", 32) + " 2120-01-01T00:00:00Z\n", "until 2120-01-01T00:00:00Z: nothing can be sent then", []string{"show"}},
		{"1 " + strings.Repeat("ab", 32) + " 2120-01-01T00:00:00Z 2119-01-01T00:00:00Z\n", "never valid", []string{"show"}},
		{"1 " + strings.Repeat("ab", 32) + " - 2119-01-01T00:00:00Z\n", "from 2119-01-01T00:00:00Z until", []string{"rotate", "-q", "-in", "876000h"}},
		{"1 " + strings.Repeat("ab", 32) + "\n", "warning: the keys of before are refused 1m0s after", []string{"rotate", "-overlap", "1m"}},
	} {
		if err := os.WriteFile(file, []byte(c.keys), 0o600); err != nil {
			t.Fatal(err)
		}
		run(0, c.says, c.args...)
	}
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	run(2, "chmod 600", "show")
}
