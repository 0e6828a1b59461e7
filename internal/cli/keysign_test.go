package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A signing key is made and shown, its secret nowhere; what is wrong with files is said where they are used.
// docs/protocol.md §29.1, §29.8.
func TestSignKey(t *testing.T) {
	dir := t.TempDir()
	file, trust := filepath.Join(dir, "desk"), filepath.Join(dir, "trust")
	run := func(code int, says string, args ...string) string {
		t.Helper()
		r := runWith(t.Context(), "one\ntwo\n", args...)
		if r.code != code || !strings.Contains(r.stdout+r.stderr, says) || strings.Contains(r.stdout+r.stderr, "private:") {
			t.Fatalf("%v: exit code %d, %s%s, want %d and %q", args, r.code, r.stdout, r.stderr, code, says)
		}
		return r.stdout
	}
	run(1, "no such file", "key", "sign-show", file)
	public := run(0, "ed25519:", "key", "sign-new", file)
	run(1, "file exists", "key", "sign-new", file)
	if again := run(0, "", "key", "sign-show", file); again != public {
		t.Errorf("%q, and %q", public, again)
	}
	run(0, `"key":"ed25519:`, "key", "sign-show", "-json", file)
	run(2, "-valid changes nothing with sign-new", "key", "sign-new", "-valid", "1h", file)
	if err := os.WriteFile(trust, []byte("md.x "+public+"md.y "+public), 0o600); err != nil {
		t.Fatal(err)
	}
	url := func(options string) []string {
		return []string{"pub", "-t", "mem://" + t.Name() + "?" + options, "md.x"}
	}
	run(0, "", url("sign="+file+"&trust="+trust)...)
	run(2, "no such file", url("sign="+file+"x")...)
	run(2, "line 3: 1 words", url("trust="+file)...)
	run(2, "this is no signing key", url("sign="+trust)...)
	run(2, "names no file", url("trust=")...)
	if err := os.Chmod(trust, 0o620); err != nil {
		t.Fatal(err)
	}
	run(2, "chmod 644", url("trust="+trust)...)
}
