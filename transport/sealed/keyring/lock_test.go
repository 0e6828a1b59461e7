package keyring

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanfaremq/fanfare/transport/sealed"
)

// Concurrent rotations run one after another: no key is lost, each rotation ends the keys before it, and no lock
// remains.
func TestConcurrentUpdates(t *testing.T) {
	const n = 8
	file := newFile(t, "# Ask Ann.\n1 "+hex1+"\n")
	fresh := make([]sealed.KeyID, n)
	synctest.Test(t, func(t *testing.T) { // with virtual time, no wait is too long on a slow disk
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() {
				keys, err := Update(t.Context(), file, rotated)
				if err != nil {
					t.Error(err)
					return
				}
				fresh[i] = keys[len(keys)-1].ID
			})
		}
		all.Wait()
	})
	keys, err := Read(file)
	if err != nil || len(keys) != 1+n {
		t.Fatalf("%d keys, want %d: %v", len(keys), 1+n, err)
	}
	for i, k := range keys[:n] {
		if k.NotAfter.IsZero() {
			t.Errorf("key %d does not end", i)
		}
	}
	for _, id := range fresh {
		if !slices.ContainsFunc(keys, func(k sealed.Key) bool { return k.ID == id }) {
			t.Errorf("key %v is lost", id)
		}
	}
	if text, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(text), "# Ask Ann.\n") {
		t.Errorf("file content %s, error %v, want the first line \"# Ask Ann.\"", text, err)
	}
	onlyKeyring(t, file)
}

// hold keeps a keyring locked by an update until release is called.
func hold(t *testing.T, file string) (release func()) {
	t.Helper()
	held, end, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		if _, err := Update(t.Context(), file, func(keys []sealed.Key) ([]sealed.Key, error) {
			close(held)
			<-end
			return rotated(keys)
		}); err != nil {
			t.Error(err)
		}
	}()
	<-held
	return func() { close(end); <-ended }
}

// An update of a locked keyring waits for 10 s, also through a link, and its error names the holder.
// The file is unchanged. An interrupted update stops waiting.
func TestUpdateWaits(t *testing.T) {
	file := newFile(t, "1 "+hex1+"\n")
	names := []string{file}
	if link := filepath.Join(t.TempDir(), "link"); os.Symlink(file, link) == nil {
		names = append(names, link)
	}
	synctest.Test(t, func(t *testing.T) {
		release := hold(t, file)
		host, _ := os.Hostname()
		for _, name := range names {
			by := fmt.Sprintf("keyring %s: it is being changed by process %d of host %q, which has not finished within 10s: retry when it has, or end it", name, os.Getpid(), host)
			begun := time.Now()
			_, err := Update(t.Context(), name, rotated)
			if !errors.Is(err, ErrBusy) || !errors.As(err, new(*Error)) || !strings.Contains(err.Error(), by) {
				t.Errorf("Update: error %v, want %v with the holder %s", err, ErrBusy, by)
			}
			if err := Replace(name, []sealed.Key{{ID: 2, Secret: [32]byte{2}}}); !errors.Is(err, ErrBusy) {
				t.Errorf("Replace of a locked file: error %v, want %v", err, ErrBusy)
			}
			if elapsed := time.Since(begun); elapsed < 2*lockWait || elapsed > 2*lockWait+time.Second {
				t.Errorf("the update waited for %v, want %v", elapsed, 2*lockWait)
			}
		}
		over := errors.New("over")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, over)
		defer cancel()
		if _, err := Update(ctx, file, rotated); !errors.Is(err, over) {
			t.Errorf("interrupted Update: error %v, want %v", err, over)
		}
		if keys, err := Read(file); err != nil || len(keys) != 1 {
			t.Errorf("%d keys, error %v, want 1", len(keys), err)
		}
		waited := make(chan error)
		go func() {
			_, err := Update(t.Context(), file, rotated)
			waited <- err
		}()
		time.Sleep(lockWait / 2)
		release()
		if err := <-waited; err != nil {
			t.Errorf("released in time: %v", err)
		}
		if keys, err := Read(file); err != nil || len(keys) != 3 {
			t.Errorf("%d keys, error %v, want 3", len(keys), err)
		}
		onlyKeyring(t, file)
	})
}

// stopped is a context that stops the process for an hour at the first call of Done.
type stopped struct {
	context.Context
	once sync.Once
}

func (s *stopped) Done() <-chan struct{} {
	s.once.Do(func() { time.Sleep(time.Hour) })
	return s.Context.Done()
}

// Time in which the waiting process did not run does not count, because the holder was probably stopped with it.
func TestUpdateWaitsWhileStopped(t *testing.T) {
	file := newFile(t, "1 "+hex1+"\n")
	synctest.Test(t, func(t *testing.T) {
		release := hold(t, file)
		waited := make(chan error)
		go func() {
			_, err := Update(&stopped{Context: t.Context()}, file, rotated)
			waited <- err
		}()
		time.Sleep(time.Hour + lockWait/2)
		release()
		if err := <-waited; err != nil {
			t.Error(err)
		}
	})
}

// The lock file of a killed process delays no other process.
func TestLockLeftBehind(t *testing.T) {
	file := newFile(t, "1 "+hex1+"\n")
	if err := os.WriteFile(lockName(file), []byte("1 \"gone\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Update(t.Context(), file, rotated); err != nil {
		t.Error(err)
	}
	onlyKeyring(t, file)
}

// A lock on a file that its holder has removed meanwhile does not count, because the next process locks a new file.
func TestLockRemoved(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not remove an open file")
	}
	file := newFile(t, "1 "+hex1+"\n")
	before, _, err := tryLock(file)
	if err != nil || before == nil {
		t.Fatalf("tryLock: lock %v, error %v, want a lock", before, err)
	}
	late, err := openLock(lockName(file))
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	before.release()
	if l, _, err := acquireOnce(late, lockName(file), file); l != nil || err != nil {
		t.Errorf("lock after the file was removed: %v, error %v, want neither", l, err)
	}
	now, _, err := tryLock(file)
	if err != nil || now == nil {
		t.Fatalf("tryLock: lock %v, error %v, want a lock", now, err)
	}
	defer now.release()
	if l, _, err := acquireOnce(late, lockName(file), file); l != nil || err != nil {
		t.Errorf("lock after the file was replaced: %v, error %v, want neither", l, err)
	}
}

// The text in a lock file is reported only if it has the expected form, because other processes may have written it.
func TestHolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lock")
	for text, want := range map[string]string{
		"12 \"a\\nb\"\n": `process 12 of host "a\nb"`,
		"12 a\n":         "another process",
		"":               "another process",
		"12 \"" + strings.Repeat("x", 1000) + "\"": "another process",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		if got := holder(f); got != want {
			t.Errorf("holder of a lock file with %q is %s, want %s", text, got, want)
		}
		f.Close()
	}
}
