package signed

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Valid trust files, and the errors of invalid ones. docs/protocol §29.8.
func TestParseTrust(t *testing.T) {
	one, two := Format(publicOf(testKey(1))), Format(publicOf(testKey(2)))
	private := privatePrefix + strings.TrimPrefix(one, publicPrefix)
	for _, c := range []struct{ text, want string }{
		{"md.xnas.> " + one, ""},
		{"# desk\n\n  md.xnas.>\t" + one + " # comment\r\nmd.*.x " + one + "\n>  " + two, ""},
		{"", "trusts no key"},
		{"# nothing", "trusts no key"},
		{"\nmd.xnas.>", "line 2: 1 words"},
		{"a b " + one, "line 1: 3 words"},
		{"md..x " + one, "md..x"},
		{"md.>.x " + one, "md.>.x"},
		{"md.x " + strings.TrimPrefix(one, publicPrefix), "a key is written ed25519:BASE64"},
		{"md.x ed25519:AAAA", "there must be 32 bytes"},
		{"md.x ed25519:!", "there must be 32 bytes"},
		{"md.x " + private, "this is a private key"},
	} {
		_, err := ParseTrust([]byte(c.text))
		if got := errorText(err); c.want == "" && err != nil || !strings.Contains(got, c.want) {
			t.Errorf("ParseTrust(%q): error %q, want one containing %q", c.text, got, c.want)
		}
	}
	set, err := ParseTrust([]byte("md.xnas.> " + one + "\n ref.* " + one + "\nmd.xlon.> " + two))
	if err != nil {
		t.Fatal(err)
	}
	p1, p2, p3 := PublisherID(testKey(1), 5), PublisherID(testKey(2), 5), PublisherID(testKey(3), 5)
	for _, c := range []struct {
		publisher events.ID
		topic     string
		want      bool
	}{
		{p1, "md.xnas.AAPL", true}, {p1, "md.xnas", false}, {p1, "ref.x", true}, {p1, "ref.x.y", false}, {p1, "md.xlon.A", false},
		{p2, "md.xlon.A", true}, {p2, "md.xnas.A", false}, {p3, "md.xnas.A", false}, {5, "md.xnas.A", false},
	} {
		if got := set.May(c.publisher, c.topic); got != c.want {
			t.Errorf("publisher %s on %s: %v, want %v", c.publisher, c.topic, got, c.want)
		}
	}
	if (*Trust)(nil).May(p1, "md.xnas.A") || set.Keys() != 2 {
		t.Error("an empty Trust, or the number of trusted keys")
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func FuzzParseTrust(f *testing.F) {
	f.Add([]byte("md.xnas.> " + Format(publicOf(testKey(1))) + " # comment\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if set, err := ParseTrust(text); err == nil && set.Keys() == 0 {
			t.Error("no key, and no error")
		}
	})
}

// A signing key can be written and read, and is rejected if others may read its file. No error contains it.
func TestKeyFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	key, err := CreateKey(file)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ReadKey(file); err != nil || !bytes.Equal(got, key) {
		t.Errorf("ReadKey: error %v, or another key than the one created", err)
	}
	if _, err := CreateKey(file); err == nil {
		t.Error("CreateKey overwrote the file, want an error")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	public := Format(key.Public().(ed25519.PublicKey))
	if !strings.Contains(string(text), public) {
		t.Error("the file does not contain its public key")
	}
	if runtime.GOOS != "windows" {
		if err := os.Chmod(file, 0o640); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadKey(file); err == nil || !strings.Contains(err.Error(), "chmod 600 "+file+",") {
			t.Errorf("ReadKey of a file readable by the group: error %v, want the advice chmod 600", err)
		}
	}
	line := string(text[bytes.LastIndex(text[:len(text)-1], []byte("\n"))+1:])
	for _, c := range []struct{ text, want string }{
		{"", "has no key"},
		{line + line, "line 2: there is a second key"},
		{public, "line 1: this is not a signing key"},
		{line[:40], "not a signing key"},
		{line[:20] + "!" + line[21:], "not a signing key"},
	} {
		other := filepath.Join(t.TempDir(), "other")
		if err := os.WriteFile(other, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := ReadKey(other)
		if got := errorText(err); !strings.Contains(got, c.want) || strings.Contains(got, line[20:35]) {
			t.Errorf("ReadKey of %q: error %s, want one containing %q, without the key", c.text, got, c.want)
		}
	}
	if _, err := ReadKey(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("read a missing file")
	}
	if _, err := ReadKey(t.TempDir()); err == nil {
		t.Error("read a directory")
	}
}

// A changed trust file is used when its content stays the same. A file that cannot be read changes nothing.
func TestTrustFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trust")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	one, two := "> "+Format(publicOf(testKey(1)))+"\n", "> "+Format(publicOf(testKey(2)))+"\n"
	var log bytes.Buffer
	write(one)
	if runtime.GOOS != "windows" {
		if err := os.Chmod(path, 0o666); err != nil {
			t.Fatal(err)
		}
		if _, _, err := readTrust(path); err == nil || !strings.HasSuffix(err.Error(), "chmod 644 "+path) {
			t.Errorf("trust file that others may write: error %v, want the advice chmod 644", err)
		}
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	_, set, err := readTrust(path)
	if err != nil {
		t.Fatal(err)
	}
	f := &File{file: path, log: slog.New(slog.NewTextHandler(&log, nil)), text: []byte(one)}
	f.trust.Store(set)
	keys := func(when string, want int) {
		t.Helper()
		f.check(readTrust(path))
		if got := f.Trust().Keys(); got != want {
			t.Errorf("%s: %d keys, want %d", when, got, want)
		}
	}
	keys("at first", 1)
	write(one + two)
	keys("just written", 1)
	keys("unchanged since", 2)
	write("nonsense")
	keys("nonsense", 2)
	keys("unchanged since", 2)
	keys("unchanged since", 2)
	if n := strings.Count(log.String(), "cannot be read"); n != 1 {
		t.Errorf("log reports %d times that the file cannot be read, want once: %s", n, log.String())
	}
	os.Remove(path)
	keys("gone", 2)
	write(two)
	keys("back", 2)
	keys("unchanged since", 1)
}

// A file that cannot be read in time is reported and does not delay Close, because its host may be unreachable.
func TestTrustFileHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		back := make(chan struct{})
		f := &File{file: "trust", log: slog.New(slog.NewTextHandler(&log, nil)), stop: make(chan struct{}), gone: make(chan struct{})}
		f.read = func(string) ([]byte, *Trust, error) {
			<-back
			return nil, nil, errors.New("back")
		}
		go f.follow()
		time.Sleep(time.Minute)
		f.Close()
		if n := strings.Count(log.String(), "takes longer"); n != 1 {
			t.Errorf("log reports %d times that reading takes longer, want once: %s", n, log.String())
		}
		close(back)
	})
}
