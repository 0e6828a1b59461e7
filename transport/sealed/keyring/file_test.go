package keyring

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file that is being written is not taken before it stays as it is.
func TestHalfWrittenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := &File{file: path, log: slog.New(slog.DiscardHandler)}
	is := func(when string, want int) {
		t.Helper()
		if got := len(f.Keys().Keys()); got != want {
			t.Errorf("%s: %d keys, want %d", when, got, want)
		}
	}
	other := strings.Repeat("ab", 32)
	one, two := "1 "+hex1+"\n", "1 "+hex1+"\n2 "+other+"\n"
	write(two)
	f.check()
	f.check()
	is("at first", 2)
	write(one)
	f.check()
	is("half written", 2)
	write(two)
	f.check()
	f.check()
	is("as before", 2)
	write(one)
	f.check()
	f.check()
	is("shorter, and it stays so", 1)
}
