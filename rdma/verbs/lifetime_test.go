//go:build rdma && linux && cgo

package verbs

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// No closed object is held, and no held object is closed, however concurrent calls of hold and end are interleaved.
func TestHoldDuringClose(t *testing.T) {
	for range 2000 {
		l := life{kind: "thing"}
		var open atomic.Bool // the state of the object in C
		open.Store(true)
		var wg sync.WaitGroup
		for range 2 {
			wg.Add(2)
			go func() {
				defer wg.Done()
				if err := l.hold("use"); err != nil {
					if !errors.Is(err, net.ErrClosed) {
						t.Error(err)
					}
					return
				}
				if !open.Load() {
					t.Error("a held object was closed")
				}
				l.release()
			}()
			go func() {
				defer wg.Done()
				if err := l.enter("ask"); err == nil {
					if !open.Load() {
						t.Error("an entered object was closed")
					}
					l.leave()
				}
				switch err := l.end("close"); {
				case err == nil:
					open.Store(false)
				case !errors.Is(err, net.ErrClosed) && !errors.Is(err, syscall.EBUSY):
					t.Error(err)
				}
			}()
		}
		wg.Wait()
	}
}

func TestLife(t *testing.T) {
	l := life{kind: "thing"}
	if err := l.hold("use"); err != nil {
		t.Fatal(err)
	}
	wantErrno(t, "end of a held object", l.end("close"), syscall.EBUSY)
	if !l.release() {
		t.Error("release does not report the last user")
	}
	for range 2 {
		if err := l.end("close"); err != nil {
			t.Fatal(err)
		}
		for what, err := range map[string]error{"hold": l.hold("use"), "enter": l.enter("use"), "end": l.end("use")} {
			if !errors.Is(err, net.ErrClosed) || err.Error() != "rdma: use: thing is closed: bad file descriptor" {
				t.Errorf("%s of a closed object fails with %v, want %v", what, err, net.ErrClosed)
			}
		}
		l.reopen()
	}
}
