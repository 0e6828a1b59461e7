package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// made is a directory for shared memory in which there is a fabric of this user's with an endpoint's file.
func made(t *testing.T) (dir, place, fabric string, endpoint *os.File) {
	t.Helper()
	dir = t.TempDir()
	place = filepath.Join(dir, fmt.Sprint("fanfare-", os.Geteuid()))
	fabric = filepath.Join(place, "desk")
	if err := os.MkdirAll(fabric, 0o700); err != nil {
		t.Fatal(err)
	}
	endpoint, err := os.Create(filepath.Join(fabric, "0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { endpoint.Close() })
	if _, err := endpoint.Write(make([]byte, 100_000)); err != nil {
		t.Fatal(err)
	}
	return dir, place, fabric, endpoint
}

// What is there is told: sizes, owners and modes, and whether somebody lives in a fabric.
func TestLookAtShared(t *testing.T) {
	dir, place, fabric, f := made(t)
	if err := os.WriteFile(filepath.Join(dir, "fanfare-x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	look := func(left bool) {
		t.Helper()
		m := LookAtShared(dir)
		if m.Err != nil || m.Free <= 0 || m.Free > m.Bytes || len(m.Places) != 3 {
			t.Fatalf("%+v", m)
		}
		name := filepath.Base(place)
		for i, want := range []SharedPlace{
			{Path: place, Name: name, IsDir: true, Mode: 0o700},
			{Path: fabric, Name: name, IsDir: true, Mode: 0o700, Inner: true, Left: left},
			{Path: filepath.Join(dir, "fanfare-x"), Name: "fanfare-x", Mode: 0o600},
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
	// One that is being made has no size before it is locked.
	young, err := os.Create(filepath.Join(fabric, "fedcba9876543210"))
	if err != nil {
		t.Fatal(err)
	}
	defer young.Close()
	look(false)
	if m := LookAtShared(filepath.Join(dir, "none")); m.Err == nil {
		t.Errorf("%+v", m)
	}
}

// Whoever may write where places are has nobody look at, or remove, what a link of his leads to.
func TestLookFollowsNoLink(t *testing.T) {
	dir, place, _, _ := made(t)
	other := filepath.Join(dir, fmt.Sprint("fanfare-", os.Geteuid()+1))
	for link, to := range map[string]string{other: "/", filepath.Join(dir, "fanfare-y"): "/", filepath.Join(place, "link"): "/etc"} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	m := LookAtShared(dir)
	if len(m.Places) != 5 {
		t.Errorf("%+v", m.Places)
	}
	f := host(t, "mlx5-roce.txt")
	f.Shared, f.EndpointBytes, f.UID = []SharedMemory{m}, 1, os.Geteuid()
	check := &check{Facts: f}
	check.shared()
	said := 0
	for _, x := range check.findings {
		if strings.Contains(x.Fix, "rm") && x.Fix != "rm -r "+other {
			t.Errorf("advises %q", x.Fix)
		}
		if strings.Contains(x.Text, "is no directory") {
			said++
		}
	}
	if said != 2 {
		t.Errorf("%d links are told, want that in place of a user's directory and that of a fabric:\n%s", said, text(check.findings))
	}
}

// Nobody who comes or goes finds the lock of his fabric taken by who looks: of the files that there are only those of
// endpoints are locked, which nobody else locks but their owners.
func TestLookLocksNoRoll(t *testing.T) {
	dir, _, fabric, _ := made(t)
	roll, err := os.Create(filepath.Join(fabric, "roll"))
	if err != nil {
		t.Fatal(err)
	}
	defer roll.Close()
	if err := unix.Flock(int(roll.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if m := LookAtShared(dir); len(m.Places) != 2 || !m.Places[1].Left {
		t.Errorf("somebody is said to live where the roll alone is locked: %+v", m.Places)
	}
}
