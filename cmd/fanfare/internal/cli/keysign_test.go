package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A signing key is made and shown without its secret; errors in files are reported by the command
// that uses them. docs/protocol §29.1, §29.8.
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
	run(2, "no such file", "key", "sign-show", file)
	public := run(0, "ed25519:", "key", "sign-new", file)
	run(2, "keys are never overwritten: use another file", "key", "sign-new", file)
	if again := run(0, "", "key", "sign-show", file); again != public {
		t.Errorf("sign-show writes %q, want what sign-new wrote: %q", again, public)
	}
	run(0, `"key":"ed25519:`, "key", "sign-show", "-json", file)
	run(2, "-valid has no effect with sign-new", "key", "sign-new", "-valid", "1h", file)
	writeFile(t, trust, []byte("md.x "+public+"md.y "+public))
	url := func(options string) []string {
		return []string{"pub", "-t", "mem://" + t.Name() + "?" + options, "md.x"}
	}
	run(0, "", url("sign="+file+"&trust="+trust)...)
	run(2, "no such file", url("sign="+file+"x")...)
	run(2, "line 3: 1 words", url("trust="+file)...)
	run(2, "this is not a signing key", url("sign="+trust)...)
	run(2, "names no file", url("trust=")...)
	if err := os.Chmod(trust, 0o620); err != nil {
		t.Fatal(err)
	}
	run(2, "chmod 644", url("trust="+trust)...)
}

// A subscriber reports how many messages of untrusted publishers it refused.
func TestSubReportsUntrusted(t *testing.T) {
	dir := t.TempDir()
	key, trust := filepath.Join(dir, "key"), filepath.Join(dir, "trust")
	made := runWith(t.Context(), "", "key", "sign-new", key)
	writeFile(t, trust, []byte("else "+made.stdout))
	url := loopbackURL(t)
	text := start(t, nil, "sub", "-until", "end", "-t", url+"&trust="+trust, "md.x")
	lines := start(t, nil, "sub", "-until", "end", "-t", url+"&trust="+trust, "-json", "md.x")
	if r := runWith(t.Context(), "one\ntwo\n", "pub", "-t", url+"&sign="+key, "-wait", "2", "md.x"); r.code != exitOK {
		t.Fatalf("pub ended with exit code %d, want %d: %s", r.code, exitOK, r.stderr)
	}
	for r, want := range map[*running]string{text: "2 messages refused", lines: `"messages_refused":2`} {
		r.end(t, exitIncomplete)
		if s := r.stdout.String() + r.stderr.String(); !strings.Contains(s, want) {
			t.Errorf("no %q in\n%s", want, s)
		}
	}
}
