package shm

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/transport"
)

// Endpoints with the same name are in one fabric, those with another name in another. The last one to leave removes all
// files. docs/protocol §28.1, §28.2, §28.9.
func TestNames(t *testing.T) {
	dir := ownDir(t)
	a, b, c := mustOpen(t, Config{Name: "one", Dir: dir}), mustOpen(t, Config{Name: "one", Dir: dir}), mustOpen(t, Config{Name: "two", Dir: dir})
	receives := func(from, to *Transport) bool {
		to.Join(0)
		s, err := from.NewSender(0)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		return strings.HasSuffix(transfer(t, from, to, s, "x"), "x") // after earlier messages
	}
	if !receives(a, b) || receives(a, c) {
		t.Error("names do not separate fabrics")
	}
	if got := a.GroupAddress(3); got != "shm://one/3" {
		t.Errorf("GroupAddress = %q, want shm://one/3", got)
	}
	end(a)
	d := mustOpen(t, Config{Name: "one", Dir: dir})
	if !receives(d, b) {
		t.Error("the fabric ended with its first endpoint")
	}
	if n := len(*b.known.Load()); n != 2 {
		t.Errorf("%d endpoints are connected, want 2", n)
	}
	end(b)
	end(d)
	end(c)
	if left := files(dir); len(left) > 0 {
		t.Errorf("files left: %q, want none", left)
	}
}

// Files of dead endpoints are removed by the next endpoint that joins, those of living ones are not. docs/protocol
// §28.2.
func TestClean(t *testing.T) {
	dir := ownDir(t)
	a := mustOpen(t, Config{Name: "x", Dir: dir})
	dead := mustOpen(t, Config{Name: "x", Dir: dir})
	unix.Flock(dead.own.fd, unix.LOCK_UN) // as if it had been killed
	if err := os.WriteFile(filepath.Join(a.fabric.path, bellName(77)), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b := mustOpen(t, Config{Name: "x", Dir: dir})
	want := []string{membersName, fileName(a.own.id), fileName(a.own.id) + bellSuffix, fileName(b.own.id), fileName(b.own.id) + bellSuffix}
	var got []string
	for _, path := range files(a.fabric.path) {
		got = append(got, filepath.Base(path))
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
	b.Poll(transport.NewBatch(1))
	if n := len(*b.known.Load()); n != 2 {
		t.Errorf("%d endpoints are connected, want 2", n)
	}
	for _, tr := range []*Transport{dead, a, b} {
		end(tr)
	}
}

// An endpoint that joins a fabric removes the user's other fabrics without a living endpoint, with all unfinished
// files. It does not remove living ones, nor the targets of links. docs/protocol §28.2.
func TestSweep(t *testing.T) {
	dir := ownDir(t)
	live := mustOpen(t, Config{Name: "live", Dir: dir})
	dead := mustOpen(t, Config{Name: "dead", Dir: dir})
	unix.Flock(dead.own.fd, unix.LOCK_UN) // as if it had been killed
	above, otherDir := filepath.Dir(live.fabric.path), t.TempDir()
	victim := filepath.Join(otherDir, fileName(7))
	for _, err := range []error{
		os.Mkdir(filepath.Join(above, "begun"), 0o700),
		os.Mkdir(filepath.Join(above, draftPrefix+"draft-7"), 0o700),
		os.Mkdir(filepath.Join(above, "drafted"), 0o700),
		os.WriteFile(filepath.Join(above, "drafted", draftPrefix+membersName+"-7"), nil, 0o600),
		os.WriteFile(filepath.Join(live.fabric.path, draftPrefix+membersName+"-7"), nil, 0o600),
		os.WriteFile(victim, nil, 0o600),
		os.WriteFile(filepath.Join(otherDir, membersName), nil, 0o600),
		os.Symlink(otherDir, filepath.Join(above, "link")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	next := mustOpen(t, Config{Name: "next", Dir: dir})
	again := mustOpen(t, Config{Name: "live", Dir: dir}) // which cleans its own fabric
	var got []string
	for _, path := range files(above) {
		got = append(got, strings.TrimPrefix(path, above+"/"))
	}
	want := []string{"link", "live", "live/" + membersName, "next", "next/" + membersName}
	for _, tr := range []*Transport{live, again, next} {
		want = append(want, tr.cfg.Name+"/"+fileName(tr.own.id), tr.cfg.Name+"/"+bellName(tr.own.id))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
	if _, err := os.Stat(victim); err != nil {
		t.Errorf("the target of a link: %v", err)
	}
	if err := os.Remove(filepath.Join(above, "link")); err != nil {
		t.Fatal(err)
	}
	for _, tr := range []*Transport{dead, live, again, next} {
		end(tr)
	}
}

// An endpoint without a free file descriptor when another joins, or with only one to list the endpoints, counts the
// error and connects to all as soon as descriptors are free. docs/protocol §28.2.
func TestNoDescriptor(t *testing.T) {
	for _, free := range []int{0, 1} {
		a, b, s := unconnected(t)
		var was unix.Rlimit
		next, err := unix.Dup(0)
		if err := errors.Join(err, unix.Close(next), unix.Getrlimit(unix.RLIMIT_NOFILE, &was)); err != nil {
			t.Fatal(err)
		}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(next + free), Max: was.Max}); err != nil {
			t.Fatal(err)
		}
		_, sent := s.Send(single([]byte("lost")))
		events := transport.NewBatch(1)
		polled := a.Poll(events)
		a.BeginWait(-1)
		a.EndWait() // this call reads the bell that woke the endpoint
		sleep := a.BeginWait(-1)
		a.EndWait()
		if err := errors.Join(sent, polled, unix.Setrlimit(unix.RLIMIT_NOFILE, &was)); err != nil {
			t.Fatal(err)
		}
		if n := a.Stats().ReceiveErrors; n == 0 || sleep < 0 || sleep > aliveInterval {
			t.Errorf("%d descriptors free: %d receive errors, a wait of %v, want some and at most %v", free, n, sleep, aliveInterval)
		}
		if why := unconnectedOf(events); len(why) != 1 || !strings.Contains(why[0], "ulimit -n") || free == 1 && !strings.Contains(why[0], "of 3") {
			t.Errorf("%d descriptors free: reasons %q, want one with advice on ulimit -n", free, why)
		}
		for i := 0; len(*a.known.Load()) != 3 || !strings.HasSuffix(transfer(t, a, b, s, "x"), "x"); i++ {
			if i == 1000 { // of 10 ms each
				t.Fatalf("%d descriptors free: the endpoints never connected", free)
			}
			time.Sleep(aliveInterval / 10)
			a.Poll(transport.NewBatch(1))
		}
	}
}

// unconnectedOf returns the reasons of Unmet events that a Poll reported.
func unconnectedOf(b *transport.Batch) (why []string) {
	for _, e := range b.Events {
		if e.Kind == transport.Unmet {
			why = append(why, e.Err.Error())
		}
	}
	return why
}

// An endpoint with another version of the layout is reported once, and not connected.
func TestOtherVersion(t *testing.T) {
	a, b, _ := unconnected(t)
	word(b.own.mem, atMagic).Store(magic - 1<<56)
	fetched := transport.NewBatch(1)
	if err := a.Poll(fetched); err != nil {
		t.Fatal(err)
	}
	if why := unconnectedOf(fetched); len(why) != 1 || !strings.Contains(why[0], "another version") || !strings.Contains(why[0], "1 of 3 endpoints of shm://x") {
		t.Errorf("reasons %q, want one: another version, 1 of 3 endpoints of shm://x", why)
	}
	again := func() int {
		a.fabric.suspect.Store(true)
		if err := a.Poll(fetched); err != nil {
			t.Fatal(err)
		}
		return len(unconnectedOf(fetched))
	}
	if n := again(); n != 0 {
		t.Error("it is reported more than once")
	}
	word(b.own.mem, atMagic).Store(magic)
	if n := again(); n != 0 || len(*a.known.Load()) != 3 {
		t.Errorf("reported %d times; %d connected, want none and 3", n, len(*a.known.Load()))
	}
	c := mustOpen(t, a.cfg)
	defer end(c)
	word(c.own.mem, atMagic).Store(magic - 1<<56)
	if n := again(); n != 1 {
		t.Errorf("the next endpoint is reported %d times, want once", n)
	}
}

// Trains in a file that others may write are not lent in place, even if this user owns the file: a member of a group
// may have given the members file that name. docs/protocol §28.7.
func TestWritableByOthersIsNotTrusted(t *testing.T) {
	for _, c := range []struct {
		mode      uint32
		uid       int
		otherUser bool
	}{
		{0o600, os.Geteuid(), false},
		{0o640, os.Geteuid(), false},
		{0o660, os.Geteuid(), true},
		{0o602, os.Geteuid(), true},
		{0o600, os.Geteuid() + 1, true},
	} {
		if got := !ours(&unix.Stat_t{Mode: unix.S_IFREG | c.mode, Uid: uint32(c.uid)}); got != c.otherUser {
			t.Errorf("a file of user %d with mode %o counts as another user's: %v, want %v", c.uid, c.mode, got, c.otherUser)
		}
	}
	a, b, s := unconnected(t)
	if err := unix.Fchmod(b.own.fd, 0o660); err != nil {
		t.Fatal(err)
	}
	a.Poll(transport.NewBatch(1))
	for _, p := range *a.known.Load() {
		if p.otherUser != (p.id == b.own.id) {
			t.Errorf("endpoint %x belongs to another user: %v, want %v", p.id, p.otherUser, p.id == b.own.id)
		}
	}
	if got := transfer(t, a, b, s, "x"); got != "x" {
		t.Errorf("received %q, want x", got)
	}
}

// unconnected makes two endpoints and a third one with another version. The first is not connected to the others yet;
// the second has joined group 0.
func unconnected(t *testing.T) (a, b *Transport, s transport.Sender) {
	t.Helper()
	dir := ownDir(t)
	a, b = mustOpen(t, Config{Name: "x", Dir: dir}), mustOpen(t, Config{Name: "x", Dir: dir})
	c := mustOpen(t, Config{Name: "x", Dir: dir})
	t.Cleanup(func() { end(a); end(b); end(c) })
	s, err := a.NewSender(0)
	if err := errors.Join(err, b.Join(0)); err != nil {
		t.Fatal(err)
	}
	return a, b, s
}

// Chunks of a reader that died become free, and nothing more is sent to it. docs/protocol §28.6.
func TestDeadReader(t *testing.T) {
	a, b, s := pair(t, Config{QueueTrains: 1})
	out := &transport.Outbound{Data: []byte("x"), Stride: 1, Count: 1, Lens: []uint16{1}}
	batch := transport.NewBatch(batch)
	b.Join(0)
	for range 2 * depth(b) {
		s.Send(out)
	}
	if err := b.Poll(batch); err != nil || len(batch.Trains) == 0 {
		t.Fatalf("Poll: %d trains, error %v, want at least 1", len(batch.Trains), err)
	}
	if n := maxChunks - a.pool.left(); n != depth(b) {
		t.Errorf("%d chunks are held, want %d", n, depth(b))
	}
	unix.Flock(b.own.fd, unix.LOCK_UN) // as if it had been killed
	for a.pool.left() != maxChunks {
		s.Send(out) // as soon as peers are checked
	}
}

// An endpoint that is awake is not woken, and a sleeping one only once. docs/protocol §28.8.
func TestNoWakeupsWhileAwake(t *testing.T) {
	a, b, s := pair(t, Config{})
	rang := func() uint64 { return a.rang }
	before := rang()
	for range 1000 {
		transfer(t, a, b, s, "x")
	}
	if n := rang() - before; n != 0 {
		t.Errorf("%d of 1000 trains rang the bell of an endpoint that is awake, want none", n)
	}
	for b.BeginWait(-1) == 0 { // the event of its own join woke the endpoint
		b.EndWait()
	}
	for range 10 {
		s.Send(&transport.Outbound{Data: []byte("x"), Stride: 1, Count: 1, Lens: []uint16{1}})
	}
	b.waiter.Sleep(-1)
	b.EndWait()
	if n := rang() - before; n != 1 {
		t.Errorf("the bell rang %d times for an endpoint that sleeps, want once", n)
	}
}

// depth returns the number of trains that a lane to t holds.
func depth(t *Transport) int { return int(word(t.own.mem, atDepth).Load()) }

// An endpoint with a lane that another one used before receives what is sent from then on, and no older entries,
// wherever in the lane they are. docs/protocol §28.3.
func TestLaneReused(t *testing.T) {
	a, b, s := pair(t, Config{})
	used, again, sent := map[int]bool{peerOf(a, b).slot: true}, 0, 1
	for _, more := range []int{3, 5, laneSlots, 2*laneSlots + 1} {
		for range more {
			if got := transfer(t, a, b, s, "old"); got != "old" {
				t.Fatalf("received %q as message %d, want old", got, sent)
			}
			sent++
		}
		end(b)
		b = mustOpen(t, Config{Name: "pair", Dir: a.cfg.Dir})
		defer end(b)
		if err := b.Join(0); err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"new", "newer"} {
			if got := transfer(t, a, b, s, text); got != text {
				t.Fatalf("after %d more: received %q, want %q", more, got, text)
			}
		}
		p := peerOf(a, b)
		if p.tail != 2 {
			t.Fatalf("after %d more: the lane is at %d, want 2", more, p.tail)
		}
		if used[p.slot] {
			again++
		}
		used[p.slot], sent = true, 2
	}
	if again < 2 {
		t.Errorf("lanes were reused %d times, want at least 2", again)
	}
}
