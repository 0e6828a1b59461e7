//go:build unix

package keyring

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/transport/sealed"
)

// A pipe, a device and a far too long file are rejected immediately.
func TestNotARegularFile(t *testing.T) {
	dir := t.TempDir()
	pipe, long := filepath.Join(dir, "pipe"), filepath.Join(dir, "long")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(long, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(long, 1<<40); err != nil {
		t.Logf("cannot make a file of 2^40 bytes: %v", err)
		if err := os.Truncate(long, 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	for file, wantText := range map[string]string{pipe: "not a regular file", "/dev/null": "not a regular file", long: "is longer than"} {
		if _, err := Read(file); err == nil || !strings.Contains(err.Error(), wantText) {
			t.Errorf("Read(%s): error %v, want one containing %q", file, err, wantText)
		}
	}
}

// A link in place of the lock file is rejected and not written to: another user that may write to the keyring's
// directory could have made it.
func TestLockFileIsLink(t *testing.T) {
	for what, put := range map[string]func(other, name string) error{
		"a symbolic link": os.Symlink,
		"a hard link":     os.Link,
		"a pipe":          func(_, name string) error { return syscall.Mkfifo(name, 0o600) },
		"a directory":     func(_, name string) error { return os.Mkdir(name, 0o700) },
	} {
		file := newFile(t, "1 "+hex1+"\n")
		other := newFile(t, "of another user\n")
		if err := put(other, lockName(file)); err != nil {
			t.Fatal(err)
		}
		if _, err := Update(t.Context(), file, rotated); err == nil || !strings.Contains(err.Error(), lockName(file)+", cannot be opened") {
			t.Errorf("%s: Update: error %v, want that the lock file cannot be opened", what, err)
		}
		if text, err := os.ReadFile(other); err != nil || string(text) != "of another user\n" {
			t.Errorf("%s: the other file changed to %q, error %v", what, text, err)
		}
		if keys, err := Read(file); err != nil || len(keys) != 1 {
			t.Errorf("%s: %d keys, error %v, want 1", what, len(keys), err)
		}
	}
}

// The lock file belongs to the owner of the keyring, even if root changes the keyring: a killed process of root may
// leave it.
func TestLockKeepsOwner(t *testing.T) {
	file, owner := newFile(t, "1 "+hex1+"\n"), os.Getuid()
	if owner == 0 {
		owner = 65534
		if err := os.Chown(file, owner, owner); err != nil {
			t.Fatal(err)
		}
	}
	_, err := Update(t.Context(), file, func(keys []sealed.Key) ([]sealed.Key, error) {
		info, err := os.Stat(lockName(file))
		if err != nil {
			return nil, err
		}
		if got := int(info.Sys().(*syscall.Stat_t).Uid); got != owner || info.Mode().Perm() != 0o600 {
			t.Errorf("the lock's owner is %d, its mode %v, want %d and 0600", got, info.Mode(), owner)
		}
		return keys, nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A keyring that is rotated or replaced keeps its owner and its symbolic link, and only its owner has access.
func TestReplaceKeepsOwnerAndLink(t *testing.T) {
	for name, change := range map[string]func(link string) error{
		"Update": func(link string) error {
			_, err := Update(t.Context(), link, rotated)
			return err
		},
		"Replace": func(link string) error {
			keys, err := Read(link)
			if err != nil {
				return err
			}
			other, err := NewKey(keys, time.Time{}, time.Time{})
			if err != nil {
				return err
			}
			return Replace(link, append(keys, other))
		},
	} {
		t.Run(name, func(t *testing.T) { testKeepsOwnerAndLink(t, change) })
	}
}

func testKeepsOwnerAndLink(t *testing.T, change func(link string) error) {
	dir := t.TempDir()
	there := filepath.Join(dir, "there")
	if err := os.Mkdir(there, 0o700); err != nil {
		t.Fatal(err)
	}
	file, link := filepath.Join(there, "keys"), filepath.Join(dir, "link")
	k, err := NewKey(nil, time.Time{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if err := Create(file, []sealed.Key{k}); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("there/keys", link); err != nil {
		t.Fatal(err)
	}
	owner := os.Getuid()
	if owner == 0 {
		owner = 65534
		if err := os.Chown(file, owner, owner); err != nil {
			t.Fatal(err)
		}
	}
	if err := change(link); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(link); err != nil || to != "there/keys" {
		t.Errorf("the link leads to %q, error %v, want there/keys", to, err)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := int(info.Sys().(*syscall.Stat_t).Uid); got != owner || info.Mode().Perm() != 0o600 {
		t.Errorf("the file's owner is %d, its mode %v, want %d and 0600", got, info.Mode(), owner)
	}
	if keys, err := Read(file); err != nil || len(keys) != 2 {
		t.Errorf("%d keys, error %v, want 2", len(keys), err)
	}
	for _, x := range []string{there, dir} {
		if left, _ := filepath.Glob(filepath.Join(x, ".keyring-*")); len(left) > 0 {
			t.Errorf("files left behind: %v", left)
		}
	}
}
