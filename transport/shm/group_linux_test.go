package shm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// A number that is not a valid group ID is rejected before any file is made.
func TestGroupNumbers(t *testing.T) {
	for _, group := range []string{"4294967295", "99999999999"} {
		if _, err := groupID(group); err == nil || !strings.Contains(err.Error(), "there are groups up to 4294967294") {
			t.Errorf("group %s: error %v, want the highest number of a group", group, err)
		}
	}
}

// A member of the group may ring a bell without end. Each ring ends a sleep, but only a few are read at a time, so that
// they do not occupy the reader. docs/protocol §28.8.
func TestEndlessRinging(t *testing.T) {
	a, _, _ := pair(t, Config{})
	bell, err := unix.Open(filepath.Join(a.fabric.path, bellName(a.own.id)), unix.O_WRONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(bell)
	const rings = 64 << 10
	if n, err := unix.Write(bell, make([]byte, rings)); err != nil || n != rings {
		t.Fatalf("writing to the pipe: %d bytes, error %v, want %d", n, err, rings)
	}
	if err := a.Wait(0); err != nil { // it has an event of its sender to report
		t.Fatal(err)
	}
	waits := 0
	for left := rings; left > 0; waits++ {
		if err := a.Wait(time.Minute); err != nil {
			t.Fatal(err)
		}
		before := left
		if left, err = unix.IoctlGetInt(a.own.bell, unix.TIOCINQ); err != nil || left >= before || left < before-len(a.own.rung) {
			t.Fatalf("%d rings are left of %d after a sleep, error %v, want fewer", left, before, err)
		}
	}
	if waits < 2 {
		t.Errorf("all rings are read at once")
	}
}

// If a process holds the lock of the members file and keeps announcing new endpoints, new endpoints wait for
// maxMembersWait at most. docs/protocol §28.2.
func TestLockIsNeverFree(t *testing.T) {
	dir := ownDir(t)
	h, err := enterFabric(Config{Name: "held", Dir: dir}, noEndpoint)
	if err != nil {
		t.Fatal(err)
	}
	defer h.withdraw()
	name := "another process"
	if _, err := os.Stat("/proc/locks"); err == nil {
		name = fmt.Sprint("process ", os.Getpid())
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			for ctx.Err() == nil {
				h.announce()
				time.Sleep(time.Second)
			}
		}()
		began := time.Now()
		other, err := enterFabric(Config{Name: "held", Dir: dir}, noEndpoint)
		if elapsed := time.Since(began); !errors.Is(err, errLocked) || elapsed < maxMembersWait || elapsed > maxMembersWait+time.Second || !strings.Contains(err.Error(), "kept joining and leaving for 30s, and "+name) {
			t.Errorf("enterFabric: %v, error %v after %v, want %v after %v, with the file %s", other, err, elapsed, errLocked, maxMembersWait, name)
		}
		cancel()
		<-gone
	})
}

// The error for a lock that is never free names its holder and, if no endpoint joined or left, the time. docs/protocol
// §28.2.
func TestLocked(t *testing.T) {
	began := time.Now()
	for _, c := range []struct {
		moved, now time.Duration // since the wait began
		holder     int
		over       bool
		wantText   string
	}{
		{0, membersWait, 7, false, ""},
		{0, membersWait + time.Millisecond, 7, true, "/x: another process holds the lock of the fabric: process 7 has held it for 5s: is it stopped? continue it (kill -CONT 7), or end it"},
		{0, membersWait + time.Second, 0, true, "another process has held it for 6s: is it stopped? fuser -v /x/roll names it"},
		{28 * time.Second, maxMembersWait, 7, false, ""},
		{28 * time.Second, maxMembersWait + time.Millisecond, 7, true, "endpoints kept joining and leaving for 30s, and process 7 holds it now: try again, or continue it"},
	} {
		p, over := newLockWait(began), false
		for at := time.Duration(0); at <= c.now; {
			var count [8]byte
			if at >= c.moved {
				count[0] = 1
			}
			over = p.over(began.Add(at), count)
			if at == c.now {
				break
			}
			at = min(at+maxCheckInterval, c.now)
		}
		if over != c.over {
			t.Errorf("%+v: over %v, want %v", c, over, c.over)
		}
		if err := p.locked("/x", c.holder); !strings.Contains(err.Error(), c.wantText) || !errors.Is(err, errLocked) {
			t.Errorf("error %v, want %v with %q", err, errLocked, c.wantText)
		}
	}
}

// Time in which the waiting process did not run does not count, because the holder was probably stopped with it.
// docs/protocol §28.2.
func TestLockedWhileStopped(t *testing.T) {
	now := time.Now()
	p := newLockWait(now)
	for range 20 {
		if now = now.Add(time.Hour); p.over(now, [8]byte{1}) {
			t.Fatal("gave up after the process was stopped")
		}
	}
}

// The holder of a file's lock is found in /proc/locks.
func TestLockHolder(t *testing.T) {
	const locks = "1: POSIX  ADVISORY  WRITE 11 00:1a:56 0 EOF\n2: FLOCK  ADVISORY  WRITE 12 00:1a:561 0 EOF\n" +
		"3: FLOCK  ADVISORY  WRITE 13 00:1a:56 0 EOF\n3: -> FLOCK  ADVISORY  WRITE 14 00:1a:57 0 EOF\n4: FLOCK ADVISORY WRITE -1 00:1a:58 0 EOF\nx\n"
	for file, want := range map[string]int{"00:1a:56": 13, "00:1a:57": 0, "00:1a:58": 0, "00:1a:5": 0, "": 0} {
		if got := holderIn(locks, file); got != want {
			t.Errorf("%q is held by process %d, want %d", file, got, want)
		}
	}
	h, err := enterFabric(Config{Name: "x", Dir: ownDir(t)}, noEndpoint)
	if err != nil {
		t.Fatal(err)
	}
	defer h.withdraw()
	if _, err := os.Stat("/proc/locks"); err != nil {
		testenv.Skip(t, "no /proc/locks, which names the holder of a lock: %v", err)
	}
	if pid := lockHolder(h.members); pid != os.Getpid() {
		t.Errorf("the lock is held by process %d, want %d", pid, os.Getpid())
	}
}

// noEndpoint makes no endpoint in a fabric.
func noEndpoint(*fabric) error { return nil }
