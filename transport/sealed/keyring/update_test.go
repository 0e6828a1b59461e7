package keyring

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/transport/sealed"
)

// newFile writes a keyring into a new directory.
func newFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// rotated adds a key that starts in a minute, and ends the others an hour later.
func rotated(keys []sealed.Key) ([]sealed.Key, error) {
	now := time.Now()
	keys, _, err := Rotate(keys, now, now.Add(time.Minute), time.Time{}, time.Hour)
	return keys, err
}

// onlyKeyring fails the test if the keyring's directory has any other file, except the lock file on systems that keep
// it.
func onlyKeyring(t *testing.T, file string) {
	t.Helper()
	all, err := os.ReadDir(filepath.Dir(file))
	if runtime.GOOS == "windows" {
		all = slices.DeleteFunc(all, func(e os.DirEntry) bool { return e.Name() == filepath.Base(lockName(file)) })
	}
	if err != nil || len(all) != 1 {
		t.Errorf("other files: %v, error %v, want 1 file", all, err)
	}
}

// A rotated keyring keeps its comments and format: ends are inserted or replaced, lines of expired keys are removed,
// the new key is appended, and nothing else changes. docs/protocol §27.7.
func TestUpdateKeepsText(t *testing.T) {
	other, third, fourth := strings.Repeat("ab", 32), strings.Repeat("cd", 32), strings.Repeat("ef", 32)
	for _, c := range []struct{ name, text, want string }{
		{
			"comments",
			"# Keys of the desk.\n\n\t# Ask Ann.\n0x10 " + hex1 + " # hers\n   # the end\n",
			"# Keys of the desk.\n\n\t# Ask Ann.\n0x10 " + hex1 + " - END # hers\n   # the end\nNEW\n",
		},
		{
			"any number of words and spaces",
			"\t16\t" + b641 + "  \n0x11  " + other + "  2026-01-02T03:04:05+02:00#x\n 0x12 " + third + " - -\t # - y\n0x13 " + fourth + " - 2120-01-02T03:04:05Z",
			"\t16\t" + b641 + " - END  \n0x11  " + other + "  2026-01-02T03:04:05+02:00 END#x\n 0x12 " + third + " - END\t # - y\n0x13 " + fourth + " - END\nNEW\n",
		},
		{
			"ends that stay, and an expired key",
			"# a\n0x10 " + hex1 + " - 2020-01-01T00:00:00Z # over\n# b\n0x11 " + other + " - SOON\n0x12 " + third + " 2120-01-01T00:00:00.5Z 2121-01-01T00:00:00.5+01:00\n",
			"# a\n# b\n0x11 " + other + " - SOON\n0x12 " + third + " 2120-01-01T00:00:00.5Z 2121-01-01T00:00:00.5+01:00\nNEW\n",
		},
		{
			"Windows line ends",
			"# a\r\n0x10 " + hex1 + "\r\n0x11 " + other + " - - # b\r\n# c",
			"# a\r\n0x10 " + hex1 + " - END\r\n0x11 " + other + " - END # b\r\n# c\r\nNEW\r\n",
		},
		{"only an expired key", "# a\n0x11 " + other + " - 2020-01-01T00:00:00Z", "# a\nNEW\n"},
	} {
		soon := strings.NewReplacer("SOON", Time(time.Now().Add(time.Minute)))
		file := newFile(t, soon.Replace(c.text))
		keys, err := Update(t.Context(), file, rotated)
		if err != nil {
			t.Errorf("%s: Update: %v", c.name, err)
			continue
		}
		fresh := keys[len(keys)-1]
		want := strings.NewReplacer("END", Time(fresh.NotBefore.Add(time.Hour)), "NEW", formatKey(fresh)).Replace(soon.Replace(c.want))
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%s: %v, got\n%q, want\n%q", c.name, err, got, want)
		}
		onlyKeyring(t, file)
	}
}

// A key with another secret or start is another key: the old line is removed, and a new one appended.
func TestAmendOtherKey(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	a, b := sealed.Key{ID: 1, Secret: [32]byte{1}}, sealed.Key{ID: 2, Secret: [32]byte{2}}
	text := formatKey(a) + " # a\n" + formatKey(b) + " # b\n"
	a.Secret[1], b.NotBefore = 7, at
	if got, want := string(amend([]byte(text), []sealed.Key{a, b})), formatKey(a)+"\n"+formatKey(b)+"\n"; got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
}

// Every keyring that can be parsed has the right keys after a rotation, and keeps all lines without a key.
func FuzzAmend(f *testing.F) {
	f.Add([]byte("# a\n0x10 "+hex1+" - 2027-01-02T03:04:05Z # of the desk\n"), int64(1<<30))
	f.Add([]byte("16 "+b641+"\r\n# b"), int64(0))
	f.Fuzz(func(t *testing.T, text []byte, at int64) {
		keys, err := Parse(text)
		now := time.Unix(at%(1<<32), 0)
		if err != nil {
			return
		}
		if keys, _, err = Rotate(keys, now, now.Add(time.Minute), time.Time{}, time.Hour); err != nil {
			t.Fatal(err)
		}
		amended := amend(text, keys)
		got, err := Parse(amended)
		if len(keys) > sealed.MaxKeys {
			return
		}
		same := func(a, b sealed.Key) bool {
			return a.ID == b.ID && a.Secret == b.Secret && a.NotBefore.Equal(b.NotBefore) && a.NotAfter.Equal(b.NotAfter)
		}
		if err != nil || !slices.EqualFunc(got, keys, same) {
			t.Fatalf("%v: got %+v, want %+v", err, got, keys)
		}
		others := func(text []byte) (lines []string) {
			for line := range strings.Lines(string(text)) {
				if body, _, _ := strings.Cut(line, "#"); strings.TrimSpace(body) == "" {
					lines = append(lines, strings.TrimRight(line, "\r\n"))
				}
			}
			return lines
		}
		if was, is := others(text), others(amended); !slices.Equal(was, is) {
			t.Fatalf("the other lines %q became %q, want no change", was, is)
		}
	})
}

// A change that fails, or whose keys could not be read again, leaves the file unchanged. A file that is not a keyring
// is not locked.
func TestUpdateFails(t *testing.T) {
	text := "# a\n1 " + hex1 + "\n"
	file := newFile(t, text)
	broken := errors.New("broken")
	for _, c := range []struct {
		wantText string
		change   func([]sealed.Key) ([]sealed.Key, error)
	}{
		{"broken", func([]sealed.Key) ([]sealed.Key, error) { return nil, broken }},
		{"has no key", func([]sealed.Key) ([]sealed.Key, error) { return nil, nil }},
		{"same secret", func(keys []sealed.Key) ([]sealed.Key, error) {
			twin := keys[0]
			twin.ID++
			return append(keys, twin), nil
		}},
	} {
		if keys, err := Update(t.Context(), file, c.change); err == nil || !strings.Contains(err.Error(), c.wantText) || keys != nil {
			t.Errorf("Update: keys %v, error %v, want none and an error containing %q", keys, err, c.wantText)
		}
	}
	full := newFile(t, text+strings.Repeat("#\n", (maxBytes-len(text))/2))
	if _, err := Update(t.Context(), full, rotated); err == nil || !strings.Contains(err.Error(), "remove comments") {
		t.Errorf("a file of the maximum size: error %v, want the advice to remove comments", err)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != text {
		t.Errorf("file content %q, error %v, want %q", got, err, text)
	}
	onlyKeyring(t, file)
	nonsense := newFile(t, "nonsense\n")
	if err := os.Mkdir(lockName(nonsense), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Update(t.Context(), nonsense, rotated); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("a file that is no keyring and cannot be locked: error %v, want one of line 1", err)
	}
}
