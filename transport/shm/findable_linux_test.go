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

// An endpoint is not found any more where a name is gone or is that of something else. Other errors say
// nothing of that. docs/protocol §28.10.
func TestBecame(t *testing.T) {
	m := mark{inode: 7}
	for _, c := range []struct {
		inode uint64
		err   error
		says  string
	}{
		{7, nil, ""},
		{8, nil, "there is another one of its name"},
		{0, unix.ENOENT, "was removed"},
		{0, unix.EACCES, ""},
		{0, unix.ENFILE, ""},
		{0, unix.ENOMEM, ""},
		{0, unix.EINTR, ""},
		{0, unix.EIO, ""},
	} {
		if got := m.became(c.inode, c.err); !strings.Contains(got, c.says) || got == "" != (c.says == "") {
			t.Errorf("inode %d, %v: %q, want %q", c.inode, c.err, got, c.says)
		}
	}
}

// Of many polls few read the clock, of few each does, and so does the first one after a sleep; it is looked
// once in a second. docs/protocol §28.10.
func TestWhenToLook(t *testing.T) {
	for _, c := range []struct {
		every        time.Duration // that a poll comes
		sleeps       bool          // before each
		min, max     int           // clocks that are read, of polls in ten seconds
		looks, polls int
	}{
		{time.Microsecond, false, 10_000_000 / maxPolls, 10_000_000/maxPolls + 20, 9, 10_000_000},
		{time.Millisecond, false, 40, 160, 9, 10_000},
		{100 * time.Millisecond, false, 25, 100, 9, 100},
		{2 * time.Second, false, 5, 5, 5, 5},
		{10 * time.Millisecond, true, 1000, 1000, 9, 1000},
	} {
		now := time.Now()
		x := findable{apart: checkEvery, checked: now, every: 1}
		read, looks := 0, 0
		for range c.polls {
			now = now.Add(c.every)
			x.slept = c.sleeps
			if x.polled() {
				read++
				if x.isTime(now) {
					looks++
				}
			}
		}
		if read < c.min || read > c.max || looks < c.looks-1 || looks > c.looks+1 {
			t.Errorf("a poll each %v: %d of %d read the clock, want %d to %d; %d looks, want %d", c.every, read, c.polls, c.min, c.max, looks, c.looks)
		}
	}
}

// A sleep lasts at most until the next check, unless the endpoint has reported and checks no more.
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
		x := findable{apart: checkEvery, reported: c.reported}
		if got := x.bound(c.timeout); got != c.want {
			t.Errorf("%v becomes %v, want %v; reported: %v", c.timeout, got, c.want, c.reported)
		}
	}
}

// removals are what others may do to the files of an endpoint, and whether they do it to one alone.
var removals = map[string]struct {
	do    func(tr *Transport) error
	alone bool
	names func(tr *Transport) string
}{
	"own file": {func(tr *Transport) error { return os.Remove(ownPath(tr)) }, true, ownPath},
	"bell":     {func(tr *Transport) error { return os.Remove(ownPath(tr) + bellSuffix) }, true, func(tr *Transport) string { return ownPath(tr) + bellSuffix }},
	"another own file": {func(tr *Transport) error {
		return errors.Join(os.Remove(ownPath(tr)), os.WriteFile(ownPath(tr), nil, 0o600))
	}, true, ownPath},
	"roll":              {func(tr *Transport) error { return os.Remove(membersPath(tr)) }, false, membersPath},
	"directory":         {func(tr *Transport) error { return os.RemoveAll(tr.fabric.path) }, false, hallPath},
	"renamed directory": {func(tr *Transport) error { return os.Rename(tr.fabric.path, tr.fabric.path+"-old") }, false, hallPath},
	"another directory": {func(tr *Transport) error {
		return errors.Join(os.Rename(tr.fabric.path, tr.fabric.path+"-old"), os.Mkdir(tr.fabric.path, 0o700))
	}, false, hallPath},
	"renamed directory above": {func(tr *Transport) error {
		return os.Rename(filepath.Dir(tr.fabric.path), filepath.Dir(tr.fabric.path)+"-old")
	}, false, func(tr *Transport) string { return filepath.Dir(tr.fabric.path) }},
	"all": {func(tr *Transport) error { return os.RemoveAll(filepath.Dir(tr.fabric.path)) }, false, func(tr *Transport) string { return filepath.Dir(tr.fabric.path) }},
}

func hallPath(tr *Transport) string    { return tr.fabric.path }
func membersPath(tr *Transport) string { return filepath.Join(tr.fabric.path, membersName) }
func ownPath(tr *Transport) string     { return filepath.Join(tr.fabric.path, fileName(tr.own.id)) }

// Whatever is removed under endpoints or renamed, each that cannot be discovered any more reports it once,
// parked and polled, and continues with the other. docs/protocol §28.10.
func TestUnfindable(t *testing.T) {
	for what, c := range removals {
		for _, parked := range []bool{false, true} {
			name := what + map[bool]string{false: ", polled", true: ", parked"}[parked]
			t.Run(name, func(t *testing.T) {
				if !parked {
					testenv.Slow(t)
				}
				a, b, s := pair(t, Config{})
				defer os.RemoveAll(a.cfg.Dir) // no endpoint removes renamed files
				a.findable.apart, b.findable.apart = time.Microsecond, time.Microsecond
				if reports := append(unfindable(t, a, parked, 10), unfindable(t, b, parked, 10)...); len(reports) > 0 {
					t.Fatalf("reported %v before", reports)
				}
				if err := c.do(a); err != nil {
					t.Fatal(err)
				}
				for i, tr := range []*Transport{a, b} {
					want := 1
					if c.alone && i == 1 {
						want = 0
					}
					reports := unfindable(t, tr, parked, 10)
					if len(reports) != want {
						t.Fatalf("endpoint %d has reported %v", i, reports)
					}
					for _, e := range reports {
						if text := e.Err.Error(); !strings.HasPrefix(text, "shm: "+c.names(a)+" was removed") || !strings.Contains(text, "restart it") {
							t.Errorf("reported %+v", e)
						}
					}
				}
				if got := hear(t, a, b, s, "on"); got != "on" {
					t.Errorf("heard %q", got)
				}
			})
		}
	}
}

// unfindable has an endpoint check several times, and returns its reports.
func unfindable(t *testing.T, tr *Transport, parked bool, looks int) (reports []transport.Event) {
	t.Helper()
	batch := transport.NewBatch(16)
	for range looks {
		if polls := maxPolls; !parked {
			for range polls {
				reports = append(reports, pollUnfindable(t, tr, batch)...)
			}
			continue
		}
		if !tr.findable.reported { // then it sleeps without end
			if err := tr.Wait(-1); err != nil {
				t.Fatal(err)
			}
		}
		reports = append(reports, pollUnfindable(t, tr, batch)...)
	}
	return reports
}

func pollUnfindable(t *testing.T, tr *Transport, batch *transport.Batch) (reports []transport.Event) {
	t.Helper()
	if err := tr.Poll(batch); err != nil {
		t.Fatal(err)
	}
	for _, e := range batch.Events {
		if e.Kind == transport.Unfindable {
			reports = append(reports, e)
		}
	}
	return reports
}

// Nothing is reported when others join, leave or are killed, nor at the endpoint's own end, when Close
// removes its files. docs/protocol §28.10.
func TestFindable(t *testing.T) {
	a, _, _ := pair(t, Config{})
	a.findable.apart = time.Microsecond
	calm := func(when string) {
		t.Helper()
		for _, parked := range []bool{false, true} {
			if reports := unfindable(t, a, parked, 3); len(reports) > 0 {
				t.Errorf("%s: reported %v", when, reports)
			}
		}
	}
	comes := func() *Transport { return mustOpen(t, Config{Name: "pair", Dir: a.cfg.Dir}) }
	c := comes()
	calm("another one has come")
	end(c)
	calm("it has gone")
	dead := comes()
	unix.Flock(dead.own.fd, unix.LOCK_UN) // as if it had been killed
	end(comes())                          // which removes its files
	calm("one was killed")
	beside := mustOpen(t, Config{Name: "beside", Dir: a.cfg.Dir})
	end(beside)
	calm("another fabric has ended")
	end(dead)
	d := comes()
	d.Close()
	if d.checkFindable(); d.events.Pending() {
		t.Error("reported at its own end")
	}
	end(d)
	calm("one has closed")
}

// An endpoint that starts after the files were removed makes a fabric of its own. When it leaves, it
// removes nothing of the previous fabric, nor the other way round.
func TestTwoFabricsOfOneName(t *testing.T) {
	a, b, s := pair(t, Config{})
	if err := os.RemoveAll(a.fabric.path); err != nil {
		t.Fatal(err)
	}
	c, d := mustOpen(t, Config{Name: "pair", Dir: a.cfg.Dir}), mustOpen(t, Config{Name: "pair", Dir: a.cfg.Dir})
	x, err := c.NewSender(0)
	if err := errors.Join(err, d.Join(0)); err != nil {
		t.Fatal(err)
	}
	if got := hear(t, c, d, x, "new"); got != "new" {
		t.Errorf("heard %q", got)
	}
	if got := hear(t, a, b, s, "old"); got != "old" {
		t.Errorf("heard %q", got)
	}
	if peerOf(a, c) != nil || peerOf(c, a) != nil {
		t.Error("they have met")
	}
	end(a)
	if got := hear(t, c, d, x, "new"); got != "new" {
		t.Errorf("when one of before has gone: heard %q", got)
	}
	end(c)
	end(d)
}
