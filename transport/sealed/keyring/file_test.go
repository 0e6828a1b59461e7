package keyring

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A file that is being written is not used until its content stays the same.
func TestHalfWrittenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := &File{file: path, log: slog.New(slog.DiscardHandler)}
	check := func() { f.check(readText(path)) }
	is := func(when string, want int) {
		t.Helper()
		if got := len(f.Keys().Keys()); got != want {
			t.Errorf("%s: %d keys, want %d", when, got, want)
		}
	}
	other := strings.Repeat("ab", 32)
	one, two := "1 "+hex1+"\n", "1 "+hex1+"\n2 "+other+"\n"
	write(two)
	check()
	check()
	is("at first", 2)
	write(one)
	check()
	is("half written", 2)
	write(two)
	check()
	check()
	is("as before", 2)
	write(one)
	check()
	check()
	is("shorter, and unchanged since", 1)
}

// A read that hangs, as on an unreachable host, is reported once. Close does not wait for it.
func TestReadThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logBuffer
		hang, hung := make(chan struct{}), make(chan struct{}, 1)
		f := &File{
			file: "keys", log: slog.New(slog.NewTextHandler(&log, nil)), stop: make(chan struct{}), gone: make(chan struct{}),
			read: func(string) ([]byte, error) {
				hung <- struct{}{}
				<-hang
				return nil, errors.New("the host is reachable again, but the file invalid")
			},
		}
		go f.follow()
		time.Sleep(time.Minute)
		if len(hung) != 1 || log.count("takes longer than 10s") != 1 {
			t.Errorf("%d reads hang, want 1, and one log line: %s", len(hung), log.b.String())
		}
		f.Close()
		close(hang) // then no goroutine is left
	})
}
