package shm

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// A number that no group has, or that means none, is refused before anything is made.
func TestGroupNumbers(t *testing.T) {
	for _, group := range []string{"4294967295", "99999999999"} {
		if _, err := groupID(group); err == nil || !strings.Contains(err.Error(), "there are groups up to 4294967294") {
			t.Errorf("%s: %v", group, err)
		}
	}
}

// Who is in the group may ring a bell without end. It ends a sleep, and no more is read of it at a time than a few rings, so that
// nobody is kept by it. docs/protocol.md §28.8.
func TestEndlessRinging(t *testing.T) {
	a, _, _ := pair(t, Config{})
	bell, err := unix.Open(filepath.Join(a.hall.path, bellName(a.own.id)), unix.O_WRONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(bell)
	const rings = 64 << 10
	if n, err := unix.Write(bell, make([]byte, rings)); err != nil || n != rings {
		t.Fatal(n, err)
	}
	if err := a.Wait(0); err != nil { // it has something to tell, of its sender
		t.Fatal(err)
	}
	waits := 0
	for left := rings; left > 0; waits++ {
		if err := a.Wait(time.Minute); err != nil {
			t.Fatal(err)
		}
		before := left
		if left, err = unix.IoctlGetInt(a.own.bell, unix.TIOCINQ); err != nil || left >= before || left < before-len(a.own.rung) {
			t.Fatalf("%d rings are left of %d after a sleep: %v", left, before, err)
		}
	}
	if waits < 2 {
		t.Errorf("all is read at a time")
	}
}

// Who holds the lock of the roll and says all the time that somebody came has newcomers wait for so long, and no longer.
// docs/protocol.md §28.2.
func TestRollIsNeverFree(t *testing.T) {
	dir := ownDir(t)
	h, err := enterHall(Config{Name: "held", Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		h.remove(rollName)
		h.removeEmpty()
		h.leave()
	}()
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
		other, err := enterHall(Config{Name: "held", Dir: dir})
		if took := time.Since(began); !errors.Is(err, errLocked) || took < mostRollWait || took > mostRollWait+time.Second {
			t.Errorf("%v, %v after %v", other, err, took)
		}
		cancel()
		<-gone
	})
}
