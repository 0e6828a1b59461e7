package doctor

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// What is there is told: sizes, owners and modes, and whether somebody lives in a fabric.
func TestLookAtShared(t *testing.T) {
	dir := t.TempDir()
	fabric := filepath.Join(dir, "fanfare-7", "desk")
	if err := os.MkdirAll(fabric, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "fanfare-8"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(fabric, "0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(make([]byte, 100_000)); err != nil {
		t.Fatal(err)
	}
	look := func(left bool) {
		t.Helper()
		m := LookAtShared(dir)
		if m.Err != nil || m.Free <= 0 || m.Free > m.Bytes || len(m.Places) != 3 {
			t.Fatalf("%+v", m)
		}
		for i, want := range []SharedPlace{
			{Path: filepath.Join(dir, "fanfare-7"), Name: "fanfare-7", IsDir: true, Mode: 0o700},
			{Path: fabric, Name: "fanfare-7", IsDir: true, Mode: 0o700, Left: left},
			{Path: filepath.Join(dir, "fanfare-8"), Name: "fanfare-8", Mode: 0o600},
		} {
			want.UID, want.GID, want.Bytes = os.Geteuid(), os.Getegid(), m.Places[i].Bytes
			if m.Places[i] != want {
				t.Errorf("%+v, want %+v", m.Places[i], want)
			}
		}
		if m.Places[1].Bytes < 100_000 {
			t.Errorf("%+v", m.Places[1])
		}
	}
	look(true)
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	look(false)
	f.Close()
	look(true)
	if m := LookAtShared(filepath.Join(dir, "none")); m.Err == nil {
		t.Errorf("%+v", m)
	}
}
