package shm

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/transport"
)

// Endpoints of one name meet; another name is another fabric; nothing is left when the last one
// has gone. docs/protocol.md §28.1, §28.2, §28.9.
func TestNames(t *testing.T) {
	dir := ownDir(t)
	a, b, c := mustOpen(t, Config{Name: "one", Dir: dir}), mustOpen(t, Config{Name: "one", Dir: dir}), mustOpen(t, Config{Name: "two", Dir: dir})
	hears := func(from, to *Transport) bool {
		to.Join(0)
		s, err := from.NewSender(0)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		return strings.HasSuffix(hear(t, from, to, s, "x"), "x") // behind what came before
	}
	if !hears(a, b) || hears(a, c) {
		t.Error("names do not separate fabrics")
	}
	if got := a.GroupAddress(3); got != "shm://one/3" {
		t.Errorf("GroupAddress = %q", got)
	}
	end(a)
	d := mustOpen(t, Config{Name: "one", Dir: dir})
	if !hears(d, b) {
		t.Error("the fabric went with its first endpoint")
	}
	if n := len(*b.known.Load()); n != 2 {
		t.Errorf("%d endpoints are known, want 2", n)
	}
	end(b)
	end(d)
	end(c)
	if left := files(dir); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// What dead owners have left is removed by the next, and what lives is not. docs/protocol.md §28.2.
func TestClean(t *testing.T) {
	dir := ownDir(t)
	a := mustOpen(t, Config{Name: "x", Dir: dir})
	dead := mustOpen(t, Config{Name: "x", Dir: dir})
	unix.Flock(dead.own.fd, unix.LOCK_UN) // as if it had been killed
	if err := os.WriteFile(filepath.Join(a.hall.path, bellName(77)), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b := mustOpen(t, Config{Name: "x", Dir: dir})
	want := []string{rollName, fileName(a.own.id), fileName(a.own.id) + bellSuffix, fileName(b.own.id), fileName(b.own.id) + bellSuffix}
	var got []string
	for _, path := range files(a.hall.path) {
		got = append(got, filepath.Base(path))
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
	b.Poll(transport.NewBatch(1))
	if n := len(*b.known.Load()); n != 2 {
		t.Errorf("%d endpoints are known, want 2", n)
	}
	for _, tr := range []*Transport{dead, a, b} {
		end(tr)
	}
}

// What a reader held that has died is free again, and it is passed over. docs/protocol.md §28.6.
func TestDeadReader(t *testing.T) {
	a, b, s := pair(t, Config{QueueTrains: 1})
	out := &transport.Outbound{Data: []byte("x"), Stride: 1, Count: 1, Lens: []uint16{1}}
	batch := transport.NewBatch(batch)
	b.Join(0)
	for range 2 * depth(b) {
		s.Send(out)
	}
	if err := b.Poll(batch); err != nil || len(batch.Trains) == 0 {
		t.Fatal(len(batch.Trains), err)
	}
	if n := maxChunks - a.pool.left(); n != depth(b) {
		t.Errorf("%d chunks are held, want %d", n, depth(b))
	}
	unix.Flock(b.own.fd, unix.LOCK_UN) // as if it had been killed
	for a.pool.left() != maxChunks {
		s.Send(out) // as soon as it is asked who lives
	}
}

// Who is awake is not written to, and who sleeps only once. docs/protocol.md §28.8.
func TestNoCallsWhileAwake(t *testing.T) {
	a, b, s := pair(t, Config{})
	rang := func() uint64 { return a.rang }
	before := rang()
	for range 1000 {
		hear(t, a, b, s, "x")
	}
	if n := rang() - before; n != 0 {
		t.Errorf("%d of 1000 trains rang for one that is awake", n)
	}
	for b.BeginWait(-1) == 0 { // it was woken to hear of its own join
		b.EndWait()
	}
	for range 10 {
		s.Send(&transport.Outbound{Data: []byte("x"), Stride: 1, Count: 1, Lens: []uint16{1}})
	}
	b.waiter.Sleep(-1)
	b.EndWait()
	if n := rang() - before; n != 1 {
		t.Errorf("rang %d times for one that sleeps", n)
	}
}

// depth is how many trains a lane to t holds.
func depth(t *Transport) int { return int(word(t.own.mem, atDepth).Load()) }
