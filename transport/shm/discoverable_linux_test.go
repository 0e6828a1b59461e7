package shm

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/transport"
)

// An endpoint cannot be discovered if one of its names was removed or belongs to another file. Other errors do not
// count. docs/protocol §28.10.
func TestMarkChanged(t *testing.T) {
	m := mark{inode: 7}
	for _, c := range []struct {
		inode    uint64
		err      error
		wantText string
	}{
		{7, nil, ""},
		{8, nil, "was replaced by another file"},
		{0, unix.ENOENT, "was removed"},
		{0, unix.EACCES, ""},
		{0, unix.ENFILE, ""},
		{0, unix.ENOMEM, ""},
		{0, unix.EINTR, ""},
		{0, unix.EIO, ""},
	} {
		if got := m.became(c.inode, c.err); !strings.Contains(got, c.wantText) || got == "" != (c.wantText == "") {
			t.Errorf("inode %d, %v: %q, want %q", c.inode, c.err, got, c.wantText)
		}
	}
}

// Of frequent polls few read the clock, of rare ones each does, and so does the first one after a sleep. The files are
// checked once a second. docs/protocol §28.10.
func TestCheckInterval(t *testing.T) {
	for _, c := range []struct {
		every         time.Duration // time between two polls
		sleeps        bool          // before each poll
		min, max      int           // clock reads of the polls in ten seconds
		checks, polls int
	}{
		{time.Microsecond, false, 10_000_000 / maxPolls, 10_000_000/maxPolls + 20, 9, 10_000_000},
		{time.Millisecond, false, 40, 160, 9, 10_000},
		{100 * time.Millisecond, false, 25, 100, 9, 100},
		{2 * time.Second, false, 5, 5, 5, 5},
		{10 * time.Millisecond, true, 1000, 1000, 9, 1000},
	} {
		now := time.Now()
		x := discoverable{apart: checkEvery, checked: now, every: 1}
		read, checks := 0, 0
		for range c.polls {
			now = now.Add(c.every)
			x.slept = c.sleeps
			if x.polled() {
				read++
				if x.isTime(now) {
					checks++
				}
			}
		}
		if read < c.min || read > c.max || checks < c.checks-1 || checks > c.checks+1 {
			t.Errorf("a poll every %v: %d of %d read the clock, want %d to %d; %d checks, want %d", c.every, read, c.polls, c.min, c.max, checks, c.checks)
		}
	}
}

// A sleep lasts at most until the next check, unless the endpoint has made its report: then it no longer checks.
func TestSleepIsBounded(t *testing.T) {
	for _, c := range []struct {
		timeout, want time.Duration
		reported      bool
	}{
		{-1, checkEvery, false},
		{time.Minute, checkEvery, false},
		{time.Millisecond, time.Millisecond, false},
		{0, 0, false},
		{-1, -1, true},
		{time.Minute, time.Minute, true},
	} {
		x := discoverable{apart: checkEvery, reported: c.reported}
		if got := x.bound(c.timeout); got != c.want {
			t.Errorf("%v becomes %v, want %v; reported: %v", c.timeout, got, c.want, c.reported)
		}
	}
}

// removals are changes that others may make to the files of an endpoint. With alone, they affect only one endpoint.
var removals = map[string]struct {
	do     func(tr *Transport) error
	single bool
	names  func(tr *Transport) string
}{
	"own file": {func(tr *Transport) error { return os.Remove(ownPath(tr)) }, true, ownPath},
	"bell":     {func(tr *Transport) error { return os.Remove(ownPath(tr) + bellSuffix) }, true, func(tr *Transport) string { return ownPath(tr) + bellSuffix }},
	"another own file": {func(tr *Transport) error {
		return errors.Join(os.Remove(ownPath(tr)), os.WriteFile(ownPath(tr), nil, 0o600))
	}, true, ownPath},
	"members file":      {func(tr *Transport) error { return os.Remove(membersPath(tr)) }, false, membersPath},
	"directory":         {func(tr *Transport) error { return os.RemoveAll(tr.fabric.path) }, false, fabricPath},
	"renamed directory": {func(tr *Transport) error { return os.Rename(tr.fabric.path, tr.fabric.path+"-old") }, false, fabricPath},
	"another directory": {func(tr *Transport) error {
		return errors.Join(os.Rename(tr.fabric.path, tr.fabric.path+"-old"), os.Mkdir(tr.fabric.path, 0o700))
	}, false, fabricPath},
	"renamed directory above": {func(tr *Transport) error {
		return os.Rename(filepath.Dir(tr.fabric.path), filepath.Dir(tr.fabric.path)+"-old")
	}, false, func(tr *Transport) string { return filepath.Dir(tr.fabric.path) }},
	"all": {func(tr *Transport) error { return os.RemoveAll(filepath.Dir(tr.fabric.path)) }, false, func(tr *Transport) string { return filepath.Dir(tr.fabric.path) }},
}

func fabricPath(tr *Transport) string  { return tr.fabric.path }
func membersPath(tr *Transport) string { return filepath.Join(tr.fabric.path, membersName) }
func ownPath(tr *Transport) string     { return filepath.Join(tr.fabric.path, fileName(tr.own.id)) }

// Whichever file of endpoints is removed or renamed, each endpoint that cannot be discovered any more reports it once,
// parked or polled, and stays connected. docs/protocol §28.10.
func TestUndiscoverable(t *testing.T) {
	for what, c := range removals {
		for _, parked := range []bool{false, true} {
			name := what + map[bool]string{false: ", polled", true: ", parked"}[parked]
			t.Run(name, func(t *testing.T) {
				if !parked {
					testenv.Slow(t)
				}
				a, b, s := pair(t, Config{})
				defer os.RemoveAll(a.cfg.Dir) // because no endpoint removes renamed files
				a.discoverable.apart, b.discoverable.apart = time.Microsecond, time.Microsecond
				if reports := append(undiscoverable(t, a, parked, 10), undiscoverable(t, b, parked, 10)...); len(reports) > 0 {
					t.Fatalf("events before the change: %v, want none", reports)
				}
				if err := c.do(a); err != nil {
					t.Fatal(err)
				}
				for i, tr := range []*Transport{a, b} {
					want := 1
					if c.single && i == 1 {
						want = 0
					}
					reports := undiscoverable(t, tr, parked, 10)
					if len(reports) != want {
						t.Fatalf("endpoint %d has events %v, want %d", i, reports, want)
					}
					cause := " was removed or renamed: "
					if strings.HasPrefix(what, "another ") {
						cause = " was replaced by another file: "
					}
					for _, e := range reports {
						if text := e.Err.Error(); !strings.HasPrefix(text, "shm: "+c.names(a)+cause) || !strings.Contains(text, "restart it") {
							t.Errorf("event %+v, want the cause %q, and the advice to restart", e, cause)
						}
					}
				}
				if got := transfer(t, a, b, s, "on"); got != "on" {
					t.Errorf("received %q, want on", got)
				}
			})
		}
	}
}

// undiscoverable makes an endpoint check its files several times, and returns its reports.
func undiscoverable(t *testing.T, tr *Transport, parked bool, checks int) (reports []transport.Event) {
	t.Helper()
	batch := transport.NewBatch(16)
	for range checks {
		if polls := maxPolls; !parked {
			for range polls {
				reports = append(reports, pollUndiscoverable(t, tr, batch)...)
			}
			continue
		}
		if !tr.discoverable.reported { // otherwise it sleeps without a limit
			if err := tr.Wait(-1); err != nil {
				t.Fatal(err)
			}
		}
		reports = append(reports, pollUndiscoverable(t, tr, batch)...)
	}
	return reports
}

func pollUndiscoverable(t *testing.T, tr *Transport, batch *transport.Batch) (reports []transport.Event) {
	t.Helper()
	if err := tr.Poll(batch); err != nil {
		t.Fatal(err)
	}
	for _, e := range batch.Events {
		if e.Kind == transport.Undiscoverable {
			reports = append(reports, e)
		}
	}
	return reports
}

// Nothing is reported when others join, leave or are killed, nor at the endpoint's end, when Close removes its files.
// docs/protocol §28.10.
func TestDiscoverable(t *testing.T) {
	a, _, _ := pair(t, Config{})
	a.discoverable.apart = time.Microsecond
	calm := func(when string) {
		t.Helper()
		for _, parked := range []bool{false, true} {
			if reports := undiscoverable(t, a, parked, 3); len(reports) > 0 {
				t.Errorf("%s: events %v, want none", when, reports)
			}
		}
	}
	join := func() *Transport { return mustOpen(t, Config{Name: "pair", Dir: a.cfg.Dir}) }
	c := join()
	calm("another endpoint has joined")
	end(c)
	calm("it has left")
	dead := join()
	unix.Flock(dead.own.fd, unix.LOCK_UN) // as if it had been killed
	end(join())                           // it removes the files of the killed one
	calm("an endpoint was killed")
	sibling := mustOpen(t, Config{Name: "beside", Dir: a.cfg.Dir})
	end(sibling)
	calm("another fabric has ended")
	end(dead)
	d := join()
	d.Close()
	if d.checkDiscoverable(); d.events.Pending() {
		t.Error("reported at the endpoint's end")
	}
	end(d)
	calm("an endpoint has closed")
}

// An endpoint that starts after the files were removed makes a new fabric. Endpoints of either fabric that leave remove
// nothing of the other.
func TestTwoFabricsWithOneName(t *testing.T) {
	a, b, s := pair(t, Config{})
	if err := os.RemoveAll(a.fabric.path); err != nil {
		t.Fatal(err)
	}
	c, d := mustOpen(t, Config{Name: "pair", Dir: a.cfg.Dir}), mustOpen(t, Config{Name: "pair", Dir: a.cfg.Dir})
	x, err := c.NewSender(0)
	if err := errors.Join(err, d.Join(0)); err != nil {
		t.Fatal(err)
	}
	if got := transfer(t, c, d, x, "new"); got != "new" {
		t.Errorf("received %q, want new", got)
	}
	if got := transfer(t, a, b, s, "old"); got != "old" {
		t.Errorf("received %q, want old", got)
	}
	if peerOf(a, c) != nil || peerOf(c, a) != nil {
		t.Error("endpoints of the two fabrics are connected")
	}
	end(a)
	if got := transfer(t, c, d, x, "new"); got != "new" {
		t.Errorf("after an endpoint of the previous fabric left: received %q", got)
	}
	end(c)
	end(d)
}
