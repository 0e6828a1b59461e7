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

// A pipe and a device are refused, and not waited for; so is a file that is far too long.
func TestNoRegularFile(t *testing.T) {
	dir := t.TempDir()
	pipe, long := filepath.Join(dir, "pipe"), filepath.Join(dir, "long")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(long, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(long, 1<<40); err != nil {
		t.Logf("no file of 2^40 bytes here: %v", err)
		if err := os.Truncate(long, 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	for file, says := range map[string]string{pipe: "no regular file", "/dev/null": "no regular file", long: "is longer than"} {
		if _, err := Read(file); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", file, err, says)
		}
	}
}

// A keyring that is rotated keeps its owner and its symbolic link.
func TestReplaceKeepsOwnerAndLink(t *testing.T) {
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
	other, _ := NewKey([]sealed.Key{k}, time.Time{}, time.Time{})
	if err := Replace(link, []sealed.Key{k, other}); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(link); err != nil || to != "there/keys" {
		t.Errorf("the link is %q, %v", to, err)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := int(info.Sys().(*syscall.Stat_t).Uid); got != owner || info.Mode().Perm() != 0o600 {
		t.Errorf("owner %d, mode %v; it was %d", got, info.Mode(), owner)
	}
	if keys, err := Read(file); err != nil || len(keys) != 2 {
		t.Errorf("%d keys, %v", len(keys), err)
	}
	for _, x := range []string{there, dir} {
		if left, _ := filepath.Glob(filepath.Join(x, ".keyring-*")); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
}
