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
// nothing of that. docs/protocol.md §28.10.
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
// once in a second. docs/protocol.md §28.10.
func TestWhenToLook(t *testing.T) {
	for _, c := range []struct {
		every        time.Duration // that a poll comes
		sleeps       bool          // before each
		least, most  int           // clocks that are read, of polls in ten seconds
		looks, polls int
	}{
		{time.Microsecond, false, 10_000_000 / mostPolls, 10_000_000/mostPolls + 20, 9, 10_000_000},
		{time.Millisecond, false, 40, 160, 9, 10_000},
		{100 * time.Millisecond, false, 25, 100, 9, 100},
		{2 * time.Second, false, 5, 5, 5, 5},
		{10 * time.Millisecond, true, 1000, 1000, 9, 1000},
	} {
		now := time.Now()
		x := findable{apart: lookEvery, looked: now, every: 1}
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
		if read < c.least || read > c.most || looks < c.looks-1 || looks > c.looks+1 {
			t.Errorf("a poll each %v: %d of %d read the clock, want %d to %d; %d looks, want %d", c.every, read, c.polls, c.least, c.most, looks, c.looks)
		}
	}
}

// Nobody sleeps for longer than until the next look, but who has told and looks no more.
func TestSleepIsBounded(t *testing.T) {
	for _, c := range []struct {
		timeout, want time.Duration
		told          bool
	}{
		{-1, lookEvery, false},
		{time.Minute, lookEvery, false},
		{time.Millisecond, time.Millisecond, false},
		{0, 0, false},
		{-1, -1, true},
		{time.Minute, time.Minute, true},
	} {
		x := findable{apart: lookEvery, told: c.told}
		if got := x.bound(c.timeout); got != c.want {
			t.Errorf("%v becomes %v, want %v; told: %v", c.timeout, got, c.want, c.told)
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
	"roll":              {func(tr *Transport) error { return os.Remove(rollPath(tr)) }, false, rollPath},
	"directory":         {func(tr *Transport) error { return os.RemoveAll(tr.hall.path) }, false, hallPath},
	"renamed directory": {func(tr *Transport) error { return os.Rename(tr.hall.path, tr.hall.path+"-old") }, false, hallPath},
	"another directory": {func(tr *Transport) error {
		return errors.Join(os.Rename(tr.hall.path, tr.hall.path+"-old"), os.Mkdir(tr.hall.path, 0o700))
	}, false, hallPath},
	"renamed directory above": {func(tr *Transport) error {
		return os.Rename(filepath.Dir(tr.hall.path), filepath.Dir(tr.hall.path)+"-old")
	}, false, func(tr *Transport) string { return filepath.Dir(tr.hall.path) }},
	"all": {func(tr *Transport) error { return os.RemoveAll(filepath.Dir(tr.hall.path)) }, false, func(tr *Transport) string { return filepath.Dir(tr.hall.path) }},
}

func hallPath(tr *Transport) string { return tr.hall.path }
func rollPath(tr *Transport) string { return filepath.Join(tr.hall.path, rollName) }
func ownPath(tr *Transport) string  { return filepath.Join(tr.hall.path, fileName(tr.own.id)) }

// Whatever is removed under endpoints or renamed, each that is not found any more says so once, parked
// and polled, and goes on with the other. docs/protocol.md §28.10.
func TestUnfindable(t *testing.T) {
	for what, c := range removals {
		for _, parked := range []bool{false, true} {
			name := what + map[bool]string{false: ", polled", true: ", parked"}[parked]
			t.Run(name, func(t *testing.T) {
				if !parked {
					testenv.Slow(t)
				}
				a, b, s := pair(t, Config{})
				defer os.RemoveAll(a.cfg.Dir) // what was renamed nobody removes
				a.findable.apart, b.findable.apart = time.Microsecond, time.Microsecond
				if told := append(unfindable(t, a, parked, 10), unfindable(t, b, parked, 10)...); len(told) > 0 {
					t.Fatalf("told %v before", told)
				}
				if err := c.do(a); err != nil {
					t.Fatal(err)
				}
				for i, tr := range []*Transport{a, b} {
					want := 1
					if c.alone && i == 1 {
						want = 0
					}
					told := unfindable(t, tr, parked, 10)
					if len(told) != want {
						t.Fatalf("endpoint %d has told %v", i, told)
					}
					for _, e := range told {
						if text := e.Err.Error(); e.Group != transport.Unicast || !strings.HasPrefix(text, "shm: "+c.names(a)+" was removed") || !strings.Contains(text, "restart it") {
							t.Errorf("told %+v", e)
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

// unfindable has an endpoint look several times, and returns what it says.
func unfindable(t *testing.T, tr *Transport, parked bool, looks int) (told []transport.Event) {
	t.Helper()
	batch := transport.NewBatch(16)
	for range looks {
		if polls := mostPolls; !parked {
			for range polls {
				told = append(told, pollUnfindable(t, tr, batch)...)
			}
			continue
		}
		if !tr.findable.told { // then it sleeps without end
			if err := tr.Wait(-1); err != nil {
				t.Fatal(err)
			}
		}
		told = append(told, pollUnfindable(t, tr, batch)...)
	}
	return told
}

func pollUnfindable(t *testing.T, tr *Transport, batch *transport.Batch) (told []transport.Event) {
	t.Helper()
	if err := tr.Poll(batch); err != nil {
		t.Fatal(err)
	}
	for _, e := range batch.Events {
		if e.State == transport.Unfindable {
			told = append(told, e)
		}
	}
	return told
}

// Nothing is told when others come, go or are killed, nor at the endpoint's own end, whose files Close
// removes. docs/protocol.md §28.10.
func TestFindable(t *testing.T) {
	a, _, _ := pair(t, Config{})
	a.findable.apart = time.Microsecond
	calm := func(when string) {
		t.Helper()
		for _, parked := range []bool{false, true} {
			if told := unfindable(t, a, parked, 3); len(told) > 0 {
				t.Errorf("%s: told %v", when, told)
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
	if d.look(); d.events.Pending() {
		t.Error("told by its own end")
	}
	end(d)
	calm("one has closed")
}

// Who comes when the files were removed makes a fabric of his own, and takes nothing of that of before with him when he goes,
// nor the other way round.
func TestTwoFabricsOfOneName(t *testing.T) {
	a, b, s := pair(t, Config{})
	if err := os.RemoveAll(a.hall.path); err != nil {
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
