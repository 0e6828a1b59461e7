package keyring

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/transport/sealed"
)

const (
	hex1 = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
	b641 = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
)

// Valid keyrings, and the errors of invalid ones. No error contains a secret. docs/protocol §27.1.
func TestParse(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"0x10 " + hex1, "0x00000010 - -"},
		{"16 " + b641 + "\n", "0x00000010 - -"},
		{"# keys\n\n  0x10 " + hex1 + " - 2027-01-02T03:04:05Z # of the desk\r\n", "0x00000010 - 2027-01-02T03:04:05Z"},
		{"0x10 " + hex1 + " 2026-01-02T03:04:05+02:00 -\n0x11 " + strings.Repeat("ab", 32), "0x00000010 2026-01-02T01:04:05Z -,0x00000011 - -"},
		{"", "has no key"},
		{"# nothing", "has no key"},
		{"0x10", "line 1: 1 words"},
		{"\n0 " + hex1, "line 2: the id"},
		{"0x100000000 " + hex1, "the id"},
		{"key " + hex1, "the id"},
		{"0x10 " + hex1[2:], "has 31 bytes"},
		{"0x10 zz" + hex1, "neither hexadecimal nor base64"},
		{"0x10 " + hex1 + " yesterday", "word 3 is neither a time"},
		{"0x10 " + hex1 + " - - -", "5 words"},
		{"0x10 " + hex1 + "\n16 " + hex1, "two keys have the id"},
		{"0x10 " + strings.Repeat("0", 64), "zeros"},
		{"0x10 " + hex1 + " 2027-01-01T00:00:00Z 2026-01-01T00:00:00Z", "0x00000010 2027-01-01T00:00:00Z 2026-01-01T00:00:00Z"},
		{"0x10 " + hex1 + "\n17 " + hex1, "have the same secret"},
		{"0x10 " + hex1 + "\n" + strings.Repeat("x", 1<<20), "too long"},
	} {
		keys, err := Parse([]byte(c.text))
		var got []string
		for _, k := range keys {
			got = append(got, k.ID.String()+" "+Time(k.NotBefore)+" "+Time(k.NotAfter))
		}
		text := strings.Join(got, ",")
		if err != nil {
			text = err.Error()
			if strings.Contains(text, hex1[:8]) {
				t.Errorf("the error contains a secret: %s", text)
			}
		}
		if !strings.Contains(text, c.want) || err == nil && text != c.want {
			t.Errorf("Parse(%.80q): %s, want %s", c.text, text, c.want)
		}
	}
}

// Every keyring that can be parsed is the same after Format and Parse.
func FuzzParse(f *testing.F) {
	f.Add([]byte("0x10 " + hex1 + " - 2027-01-02T03:04:05Z # of the desk\n"))
	f.Add([]byte("16 " + b641))
	f.Fuzz(func(t *testing.T, text []byte) {
		keys, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(Format(keys))
		if err != nil || len(again) != len(keys) {
			t.Fatalf("Parse of formatted keys: error %v, %d keys, want %d, from %q", err, len(again), len(keys), Format(keys))
		}
	})
}

// A key also ends another one made in the same second.
func TestRotateTwiceInASecond(t *testing.T) {
	now := time.Now()
	var keys []sealed.Key
	for range 3 {
		var err error
		if keys, _, err = Rotate(keys, now, now, time.Time{}, 0); err != nil {
			t.Fatal(err)
		}
	}
	if len(keys) != 1 || !keys[0].NotAfter.IsZero() {
		t.Errorf("%+v, want the last one alone", keys)
	}
	old := keys[0].ID
	keys, fresh, err := Rotate(keys, now, now, time.Time{}, time.Minute)
	if err != nil || len(keys) != 2 || keys[0].ID != old || !keys[0].NotAfter.Equal(fresh.NotBefore.Add(time.Minute)) {
		t.Errorf("with a minute of overlap: keys %+v, error %v, want 2, the old one until a minute later", keys, err)
	}
}

// Rotated keys overlap, expired ones are removed, and no key ends later than before. docs/protocol §27.7.
func TestRotate(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	key := func(id sealed.KeyID, from, until time.Duration) sealed.Key {
		k := sealed.Key{ID: id, Secret: [32]byte{byte(id)}}
		if from != 0 {
			k.NotBefore = now.Add(from)
		}
		if until != 0 {
			k.NotAfter = now.Add(until)
		}
		return k
	}
	keys := []sealed.Key{key(1, 0, 0), key(2, -time.Hour, 0), key(3, 0, -time.Second), key(4, 0, time.Hour), key(5, 9*time.Hour, 0)}
	list, fresh, err := Rotate(keys, now, now.Add(2*time.Hour), time.Time{}, 3*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	want := map[sealed.KeyID]string{1: "2026-11-23T17:00:00Z", 2: "2026-11-23T17:00:00Z", 4: "2026-11-23T13:00:00Z", 5: "-", fresh.ID: "-"}
	for _, k := range list {
		if want[k.ID] != Time(k.NotAfter) {
			t.Errorf("key %v ends at %s, want %q", k.ID, Time(k.NotAfter), want[k.ID])
		}
		delete(want, k.ID)
	}
	if len(want) > 0 || fresh.Secret == [32]byte{} {
		t.Errorf("missing keys: %v", want)
	}
}

// Read rejects a file that others may use, a directory and a missing file. Write does not overwrite an existing file.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "keys")
	k, err := NewKey(nil, time.Time{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if err := Create(file, []sealed.Key{k}); err != nil {
		t.Fatal(err)
	}
	if err := Create(file, []sealed.Key{k}); !errors.Is(err, os.ErrExist) {
		t.Errorf("Create of an existing file: error %v, want %v", err, os.ErrExist)
	}
	if got, err := Read(file); err != nil || len(got) != 1 || got[0].Secret != k.Secret {
		t.Errorf("keys %v, error %v, want the one written", got, err)
	}
	for name, f := range map[string]string{"is a directory": dir, "no such file": file + "x"} {
		if _, err := Read(f); err == nil || !strings.Contains(err.Error(), name) && runtime.GOOS == "linux" && !strings.Contains(err.Error(), "chmod") {
			t.Errorf("Read: error %v, want one containing %q", err, name)
		}
	}
	if runtime.GOOS == "windows" {
		return
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o610, 0o644, 0o666} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(file); err == nil || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("file of mode %v: error %v, want one containing \"chmod 600\"", mode, err)
		}
	}
}

// logBuffer is a log that a test reads.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

// A changed keyring is used without a restart, an invalid one changes nothing and is reported once, and Close ends the
// goroutine that reads it. docs/protocol §27.7.
func TestFileIsReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	one, _ := NewKey(nil, time.Time{}, time.Time{})
	two, _ := NewKey([]sealed.Key{one}, time.Time{}, time.Time{})
	if err := Create(file, []sealed.Key{one}); err != nil {
		t.Fatal(err)
	}
	var log logBuffer
	f, err := Open(file, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	ids := func() (all []sealed.KeyID) {
		for _, k := range f.Keys().Keys() {
			all = append(all, k.ID)
		}
		return all
	}
	await := func(what string, ok func() bool) {
		t.Helper()
		for limit := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatalf("%s: not seen; keys %v, log %s", what, ids(), log.b.String())
			}
		}
	}
	if err := Replace(file, []sealed.Key{one, two}); err != nil {
		t.Fatal(err)
	}
	await("two keys", func() bool { return len(ids()) == 2 })
	if err := os.WriteFile(file, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	await("an invalid file is reported", func() bool { return log.count("cannot be read") == 1 })
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	await("a missing file is reported", func() bool { return log.count("cannot be read") == 2 })
	if len(ids()) != 2 {
		t.Errorf("keys %v, want those before", ids())
	}
	if err := Create(file, []sealed.Key{two}); err != nil {
		t.Fatal(err)
	}
	await("only the other key", func() bool { return len(ids()) == 1 && ids()[0] == two.ID })
	f.Close()
	f.Close()
	select {
	case <-f.gone:
	default:
		t.Error("the goroutine still runs")
	}
}

// Holes are the times between keys in which nothing can be sent.
func TestHoles(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		keys [][2]int // start and end in hours after now; 0 is no bound
		want [][2]int
	}{
		{[][2]int{{0, 0}}, nil},
		{[][2]int{{0, 5}}, nil}, // the time after the last key does not count
		{[][2]int{{0, 5}, {5, 0}}, nil},
		{[][2]int{{0, 5}, {6, 0}}, [][2]int{{5, 6}}},
		{[][2]int{{6, 0}, {0, 5}}, [][2]int{{5, 6}}},
		{[][2]int{{1, 0}}, [][2]int{{0, 1}}},
		{[][2]int{{-5, -1}, {1, 2}, {1, 3}, {4, 5}}, [][2]int{{0, 1}, {3, 4}}},
		{[][2]int{{0, 3}, {2, 1}, {4, 0}}, [][2]int{{3, 4}}}, // a key that is revoked before it starts
		{[][2]int{{0, 9}, {2, 3}, {8, 0}}, nil},
	} {
		var keys []sealed.Key
		for i, x := range c.keys {
			k := sealed.Key{ID: sealed.KeyID(1 + i)}
			if x[0] != 0 {
				k.NotBefore = now.Add(time.Duration(x[0]) * time.Hour)
			}
			if x[1] != 0 {
				k.NotAfter = now.Add(time.Duration(x[1]) * time.Hour)
			}
			keys = append(keys, k)
		}
		var got [][2]int
		for _, h := range Holes(keys, now) {
			got = append(got, [2]int{int(h.From.Sub(now) / time.Hour), int(h.Until.Sub(now) / time.Hour)})
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: holes %v, want %v", c.keys, got, c.want)
		}
	}
}
