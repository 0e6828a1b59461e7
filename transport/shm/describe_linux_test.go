package shm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// placeFor makes a directory for shared memory with a fabric of this user and the file of an endpoint.
func placeFor(t *testing.T) (dir, place, fabric string, endpoint *os.File) {
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

// DescribeDir reports sizes, owners and modes, and whether an endpoint lives in a fabric.
func TestDescribeDir(t *testing.T) {
	dir, place, fabric, f := placeFor(t)
	if err := os.WriteFile(filepath.Join(dir, "fanfare-x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	check := func(left bool) {
		t.Helper()
		m, err := DescribeDir(dir)
		if err != nil || m.Free <= 0 || m.Free > m.Bytes || len(m.Places) != 2 {
			t.Fatalf("directory %+v, error %v, want free bytes and 2 places", m, err)
		}
		for i, want := range []Place{
			{Path: place, User: os.Geteuid(), Mine: true},
			{Path: fabric, User: os.Geteuid(), Mine: true, Fabric: true, Left: left, Bytes: m.Places[1].Bytes},
		} {
			if m.Places[i] != want {
				t.Errorf("place %d is %+v, want %+v", i, m.Places[i], want)
			}
		}
		if m.Places[1].Bytes < 100_000 {
			t.Errorf("place %+v, want at least 100000 bytes", m.Places[1])
		}
	}
	check(true)
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	check(false)
	f.Close()
	check(true)
	// The file of an endpoint that is being made has no size before it is locked.
	young, err := os.Create(filepath.Join(fabric, "fedcba9876543210"))
	if err != nil {
		t.Fatal(err)
	}
	defer young.Close()
	check(false)
	if m, err := DescribeDir(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("directory that does not exist: %+v, error %v, want %v", m, err, fs.ErrNotExist)
	}
	if err := os.Chmod(fabric, 0o755); err != nil {
		t.Fatal(err)
	}
	m, err := DescribeDir(dir)
	if err != nil || len(m.Places) != 2 || !strings.Contains(m.Places[1].Wrong, "has mode 0755") || m.Places[1].Bytes != 0 {
		t.Errorf("a fabric that is open to others: %+v, error %v, want 2 places, the second of mode 0755", m, err)
	}
}

// A user with write access to the directory cannot make others read or remove the target of a link.
func TestDescribeDirFollowsNoLink(t *testing.T) {
	dir, place, _, _ := placeFor(t)
	other := filepath.Join(dir, fmt.Sprint("fanfare-", os.Geteuid()+1))
	for link, to := range map[string]string{other: "/", filepath.Join(dir, "fanfare-y"): "/", filepath.Join(place, "link"): "/etc"} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	m, err := DescribeDir(dir)
	if err != nil || len(m.Places) != 4 {
		t.Errorf("directory %+v, error %v, want 4 places", m, err)
	}
	for _, p := range m.Places {
		if link := p.Path == other || filepath.Base(p.Path) == "link"; link != (p.Wrong == "is not a directory") {
			t.Errorf("place %+v, want \"is not a directory\" for links and other files only", p)
		}
	}
}

// DescribeDir does not delay endpoints that join or leave, because it does not lock the members file: it locks only the
// files of endpoints, which otherwise only their owners lock.
func TestDescribeDirLocksNoMembersFile(t *testing.T) {
	dir, _, fabric, _ := placeFor(t)
	members, err := os.Create(filepath.Join(fabric, "roll"))
	if err != nil {
		t.Fatal(err)
	}
	defer members.Close()
	if err := unix.Flock(int(members.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if m, err := DescribeDir(dir); err != nil || len(m.Places) != 2 || !m.Places[1].Left {
		t.Errorf("places %+v, error %v, want the endpoint left where only the members file is locked", m.Places, err)
	}
}
