package shm

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/transport"
)

// inChild is the environment variable with the name of the test that a test binary runs as its own child.
const inChild = "FANFARE_TEST_CHILD"

// child runs the calling test again in a child process, so that a fault fails only this test. It returns true in the
// child.
func child(t *testing.T) bool {
	t.Helper()
	if os.Getenv(inChild) == t.Name() {
		return true
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^"+t.Name()+"$", "-test.v", testenv.TimeLimit(t))
	cmd.Env = childEnv(t)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("test in a child process: error %v, output %s", err, out[max(0, len(out)-8000):])
	}
	return false
}

// childEnv returns the environment of such a process. It switches off the race detector's sleep of a second at the end.
func childEnv(t *testing.T) []string {
	return append(os.Environ(), inChild+"="+t.Name(), "GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0")
}

// Trains of other users' files, and of files that others may write to, are copied. Only trains of files that this user
// alone can write are lent in place. docs/protocol §28.7.
func TestTrainsOfOtherUsersAreCopied(t *testing.T) {
	for name, c := range map[string]struct {
		uid    int // -1: this user
		mode   uint32
		copied bool
	}{
		"ours":             {-1, 0o600, false},
		"ours, to a group": {-1, 0o640, false},
		"a group's":        {-1, 0o660, true},
		"another user's":   {os.Geteuid() + 1, 0o600, true},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{Name: "whose", Dir: ownDir(t)}
			a := mustOpen(t, cfg)
			defer end(a)
			switch err := unix.Fchown(a.own.fd, c.uid, -1); {
			case c.uid >= 0 && (err == unix.EPERM || err == unix.EINVAL): // or the user does not exist in a namespace
				testenv.Skip(t, "only root can change the owner of a file: %v", err)
			case err != nil:
				t.Fatal(err)
			}
			if err := unix.Fchmod(a.own.fd, c.mode); err != nil {
				t.Fatal(err)
			}
			b := mustOpen(t, cfg)
			defer end(b)
			if err := b.Join(0); err != nil {
				t.Fatal(err)
			}
			s, err := a.NewSender(0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Send(single([]byte("as it was"))); err != nil {
				t.Fatal(err)
			}
			fetched := transport.NewBatch(1)
			if err := b.Poll(fetched); err != nil || len(fetched.Trains) != 1 {
				t.Fatalf("Poll: %d trains, error %v, want 1", len(fetched.Trains), err)
			}
			tr, p := &fetched.Trains[0], peerOf(b, a)
			at := uintptr(unsafe.Pointer(&tr.Data[0])) - uintptr(unsafe.Pointer(&p.mem[0]))
			if copied := at >= fileBytes; copied != c.copied || p.otherUser != c.copied {
				t.Errorf("copied %v, of another user %v, want %v", copied, p.otherUser, c.copied)
			}
			clear(a.own.mem[atChunks:][:chunkBytes]) // as an endpoint may that violates the protocol
			if kept := string(tr.Data) == "as it was"; kept != c.copied {
				t.Errorf("the train changed to %q, want it copied: %v", tr.Data, c.copied)
			}
			b.Release(tr)
		})
	}
}

// Another user may truncate its file at any place and time: any read after that, by any call, is counted as an error,
// and this process survives. docs/protocol §28.7.
func TestTruncateAnywhere(t *testing.T) {
	if !child(t) {
		return
	}
	type ends struct {
		a, b    *Transport // a truncates its file, b continues
		toB     transport.Sender
		toA     transport.Sender
		retainA transport.Peer // peer of b
		fetched *transport.Batch
	}
	poll := func(e *ends) error { return e.b.Poll(e.fetched) }
	send := func(e *ends) error {
		_, err := e.toA.Send(single([]byte("to a")))
		return err
	}
	reads := map[string]struct {
		prepare, do func(e *ends) error
		at          int // the last byte that do reads is behind this offset
	}{
		"poll": {nil, poll, atRings},
		"poll what was sent": {func(e *ends) error {
			_, err := e.toB.Send(single(bytes.Repeat([]byte("x"), 60_000)))
			return err
		}, poll, atChunks},
		"check for trains": {nil, func(e *ends) error { e.b.anyWaits(); return nil }, atRings},
		"scan":             {nil, func(e *ends) error { e.b.fabric.suspect.Store(true); e.b.scanIfNeeded(); return nil }, 0},
		"send":             {nil, send, atReturns}, // a has returned what it received
		"reply":            {nil, func(e *ends) error { return e.b.Reply(e.retainA, []byte("reply")) }, atReturns},
		"send to an endpoint that has returned nothing since": {send, send, atReturned},
		"read replies": {func(e *ends) error {
			to, err := e.a.Retain(transport.Source(e.b.own.id))
			if err == nil {
				err = e.a.Reply(to, []byte("reply"))
			}
			return err
		}, func(e *ends) error {
			e.toA.(*Sender).ReadReplies(func(packet []byte) {
				if string(packet) != "reply" {
					panic(fmt.Sprintf("%q", packet))
				}
			})
			return nil
		}, atChunks},
		"copy": {nil, func(e *ends) error { peerOf(e.b, e.a).copy(make([]byte, 8), atGroups); return nil }, atGroups},
	}
	for name, c := range reads {
		for _, left := range []int64{0, atGroups, atLanes / pageBytes * pageBytes, atReturned / pageBytes * pageBytes, atRings, atReturns, atChunks} {
			t.Run(fmt.Sprint(name, ", ", left, " bytes left"), func(t *testing.T) {
				e := &ends{fetched: transport.NewBatch(16)}
				e.a, e.b, e.toB = pair(t, Config{distrust: true})
				err := e.a.Join(1)
				if err == nil {
					e.toA, err = e.b.NewSender(1)
				}
				if err == nil {
					e.retainA, err = e.b.Retain(transport.Source(e.a.own.id))
				}
				if got := transfer(t, e.b, e.a, e.toA, "here"); err != nil || got != "here" {
					t.Fatalf("received %q, error %v, want here", got, err)
				}
				if c.prepare != nil {
					if err := c.prepare(e); err != nil {
						t.Fatal(err)
					}
				}
				if err := unix.Ftruncate(e.a.own.fd, left); err != nil {
					t.Fatal(err)
				}
				defer unix.Ftruncate(e.a.own.fd, fileBytes) // otherwise a itself would fail
				p := peerOf(e.b, e.a)
				e.fetched.Trains = e.fetched.Trains[:0]
				if err := c.do(e); err != nil {
					t.Fatal(err)
				}
				if bad := left <= int64(c.at); p.bad.Load() != bad {
					t.Errorf("marked bad: %v, want %v", p.bad.Load(), bad)
				}
				if p.bad.Load() && len(e.fetched.Trains) > 0 {
					t.Errorf("a train of %d bytes that do not exist", len(e.fetched.Trains[0].Data))
				}
				for i := range e.fetched.Trains {
					e.b.Release(&e.fetched.Trains[i])
				}
				if !p.bad.Load() {
					return
				}
				if err := poll(e); err != nil || len(e.fetched.Trains) > 0 {
					t.Errorf("%d trains, error %v, want none", len(e.fetched.Trains), err)
				}
				if n := e.b.Stats().ReceiveErrors; n != 1 || !p.gone.Load() || e.b.pool.left() != maxChunks {
					t.Errorf("%d errors, gone %v, %d of %d chunks are free, want 1, true and all", n, p.gone.Load(), e.b.pool.left(), maxChunks)
				}
			})
		}
	}
}

// A member of the group may truncate the members file. That ends no process, and existing connections continue.
// docs/protocol §28.7.
func TestTruncateMembersFile(t *testing.T) {
	if !child(t) {
		return
	}
	a, b, s := pair(t, Config{Group: strconv.Itoa(os.Getegid())})
	if err := unix.Truncate(a.fabric.path+"/"+membersName, 0); err != nil {
		t.Fatal(err)
	}
	if n := a.fabric.count(); n != 0 {
		t.Errorf("a word behind the end of the file is %d, want 0", n)
	}
	a.fabric.announce()
	for _, text := range []string{"on", "and on"} {
		if got := transfer(t, a, b, s, text); got != text {
			t.Errorf("received %q, want %q", got, text)
		}
	}
	b.BeginWait(-1)
	b.EndWait()
}
