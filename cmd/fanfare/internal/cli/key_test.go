package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanfaremq/fanfare/transport/sealed"
	"github.com/fanfaremq/fanfare/transport/sealed/keyring"
)

// A keyring is made once, rotated and shown. Secrets are only in the file, which only its owner may
// read. docs/protocol §27.1, §27.7.
func TestKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	run := func(code int, wantText string, args ...string) string {
		t.Helper()
		r := runWith(t.Context(), "", append([]string{"key"}, append(args, file)...)...)
		if r.code != code || !strings.Contains(r.stdout+r.stderr, wantText) {
			t.Fatalf("key %v: exit code %d, %s%s, want %d and %q", args, r.code, r.stdout, r.stderr, code, wantText)
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
		t.Fatalf("file mode %v, error %v, want 0600", info.Mode(), err)
	}
	run(2, "never overwritten: use another file", "new")
	run(0, "begins in ", "rotate", "-in", "1h", "-overlap", "2h")
	if out := run(0, "sends and receives", "show", "-json"); strings.Count(out, "\n") != 2 || !strings.Contains(out, `"not_after":"`) {
		t.Errorf("key show -json writes %s, want 2 lines and a not_after", out)
	}
	if out := run(0, "", "rotate", "-q", "-in", "0s"); out != "" {
		t.Errorf("key rotate -q writes %q, want nothing", out)
	}
	if out := run(0, "", "show"); strings.Count(out, "0x") != 3 {
		t.Errorf("key show writes %s, want 3 keys", out)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("after rotate: %v, %v", info.Mode(), err)
	}
	for _, c := range []struct {
		keys, wantText string
		args           []string
	}{
		{"1 " + strings.Repeat("ab", 32) + " - 2020-01-01T00:00:00Z\n2 " + strings.Repeat("cd", 32) + " 2120-01-01T00:00:00Z\n", "until 2120-01-01T00:00:00Z: nothing can be sent then", []string{"show"}},
		{"1 " + strings.Repeat("ab", 32) + " 2120-01-01T00:00:00Z 2119-01-01T00:00:00Z\n", "never valid", []string{"show"}},
		{"1 " + strings.Repeat("ab", 32) + " - 2119-01-01T00:00:00Z\n", "from 2119-01-01T00:00:00Z until", []string{"rotate", "-q", "-in", "876000h"}},
		{"1 " + strings.Repeat("ab", 32) + "\n", "warning: the old keys are refused 1m0s after", []string{"rotate", "-overlap", "1m"}},
	} {
		writeFile(t, file, []byte(c.keys))
		run(0, c.wantText, c.args...)
	}
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	run(2, "chmod 600", "show")
}

// rotate preserves comments and formatting.
func TestKeyRotateKeepsComments(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	secret := strings.Repeat("ab", 32)
	text := "# Ask Ann.\n\n  0x10   " + secret + "   - 2120-01-01T00:00:00Z # hers\n\t# the end\n"
	writeFile(t, file, []byte(text))
	if r := runWith(t.Context(), "", "key", "rotate", file); r.code != exitOK {
		t.Fatalf("key rotate ended with %+v, want exit code %d", r, exitOK)
	}
	at := "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z"
	want := regexp.MustCompile("^# Ask Ann\\.\n\n  0x10   " + secret + "   - " + at + " # hers\n\t# the end\n0x[0-9a-f]{8} [0-9a-f]{64} " + at + " -\n$")
	if got, err := os.ReadFile(file); err != nil || !want.Match(got) {
		t.Errorf("keyring %s, error %v, want a match of %s", got, err, want)
	}
}

// Concurrent rotations each add a key.
func TestKeyRotateConcurrently(t *testing.T) {
	programOnly(t)
	const n = 8
	file := filepath.Join(t.TempDir(), "keys")
	if r := runWith(t.Context(), "", "key", "new", file); r.code != exitOK {
		t.Fatalf("key new ended with %+v, want exit code %d", r, exitOK)
	}
	var all []*process
	for range n {
		all = append(all, spawn(t, "key", "rotate", "-q", file))
	}
	for _, p := range all {
		p.end(t, exitOK)
	}
	if keys, err := keyring.Read(file); err != nil || len(keys) != 1+n {
		t.Errorf("%d keys, want %d: %v", len(keys), 1+n, err)
	}
}

// If another process locks the keyring for more than 10 s, nothing is changed, and standard error
// names that process. This is not a usage error: the user may try again.
func TestKeyRotateWhileLocked(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	if r := runWith(t.Context(), "", "key", "new", file); r.code != exitOK {
		t.Fatalf("key new ended with %+v, want exit code %d", r, exitOK)
	}
	synctest.Test(t, func(t *testing.T) {
		_, err := keyring.Update(t.Context(), file, func(keys []sealed.Key) ([]sealed.Key, error) {
			begun := time.Now()
			r := runWith(t.Context(), "", "key", "rotate", file)
			wantText := fmt.Sprintf("process %d of host ", os.Getpid())
			if r.code != exitIncomplete || r.stdout != "" || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, wantText) || !strings.Contains(r.stderr, "retry when it has") {
				t.Errorf("key rotate ended with %+v, want exit code %d and one line with %q", r, exitIncomplete, wantText)
			}
			if elapsed := time.Since(begun); elapsed < 10*time.Second || elapsed > 11*time.Second {
				t.Errorf("it waited for %v, want 10 s", elapsed)
			}
			return keys, nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	if keys, err := keyring.Read(file); err != nil || len(keys) != 1 {
		t.Errorf("keyring has %d keys, error %v, want 1 key", len(keys), err)
	}
}

// A key that begins after the new one is reported, because it will replace it.
func TestKeyRotateBeforeALaterOne(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	for _, c := range []struct {
		args  string
		warns int
	}{{"new", 0}, {"rotate -in 1h", 0}, {"rotate", 1}, {"rotate -in 2h", 0}} {
		r := runWith(t.Context(), "", append(append([]string{"key"}, strings.Fields(c.args)...), file)...)
		if n := strings.Count(r.stderr, "then replaces the new key"); r.code != exitOK || n != c.warns {
			t.Errorf("key %s: %d warnings, want %d: %+v", c.args, n, c.warns, r)
		}
	}
}
