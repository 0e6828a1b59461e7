package shm

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/transport"
)

// single returns a train of one packet.
func single(packet []byte) *transport.Outbound {
	return &transport.Outbound{Data: packet, Stride: len(packet), Count: 1, Lens: []uint16{uint16(len(packet))}}
}

// Lent trains stay unchanged until Poll has returned net.ErrClosed, whichever side was closed first. docs/protocol
// §28.5.
func TestLentUntilTheEnd(t *testing.T) {
	a, b, s := pair(t, Config{})
	s.Send(single([]byte("mine")))
	batch := transport.NewBatch(16)
	if err := b.Poll(batch); err != nil || len(batch.Trains) != 1 {
		t.Fatalf("Poll: %d trains, error %v, want 1", len(batch.Trains), err)
	}
	c := mustOpen(t, Config{Name: "pair", Dir: a.cfg.Dir}) // another endpoint, which continues to receive
	defer end(c)
	c.Join(0)
	b.Close()
	s.Send(single([]byte("else")))
	if got := string(batch.Trains[0].Data); got != "mine" {
		t.Errorf("a lent train changed to %q, want mine", got)
	}
}

// No entry of a lane is overwritten before it is fetched, whichever trains are kept and returned late, with the longest
// lane possible. docs/protocol §28.5.
func TestKeptTrainsInLane(t *testing.T) {
	_, b, s := pair(t, Config{QueueTrains: maxQueue})
	fetched, out := transport.NewBatch(batch), single([]byte("x"))
	var kept []transport.Train
	for range (maxLend + batch) / batch {
		for range batch {
			s.Send(out)
		}
		if err := b.Poll(fetched); err != nil {
			t.Fatal(err)
		}
		kept = append(kept, fetched.Trains...)
	}
	send := func(n int) {
		for range n {
			s.Send(out)
		}
	}
	send(laneSlots)
	last := len(kept) - 1
	b.Release(&kept[0])
	send(1)
	b.Release(&kept[last])
	send(1) // overtakes all kept trains
	for i := range kept[1:last] {
		b.Release(&kept[1+i])
	}
	send(len(kept))
	n := 0
	for range laneSlots / batch {
		if err := b.Poll(fetched); err != nil {
			t.Fatal(err)
		}
		n += len(fetched.Trains)
		for i := range fetched.Trains {
			b.Release(&fetched.Trains[i])
		}
	}
	if bad := b.Stats().ReceiveErrors; bad != 0 || n < maxQueue {
		t.Errorf("%d trains, %d receive errors, want at least %d and none", n, bad, maxQueue)
	}
}

// An endpoint that cannot open a bell retries with the next train. docs/protocol §28.8.
func TestBellRetried(t *testing.T) {
	a, b, s := pair(t, Config{})
	for b.BeginWait(-1) == 0 { // the event of its own join woke the endpoint
		b.EndWait()
	}
	path := filepath.Join(a.fabric.path, bellName(b.own.id))
	if err := os.Rename(path, path+"x"); err != nil {
		t.Fatal(err)
	}
	s.Send(single([]byte("x")))
	if err := os.Rename(path+"x", path); err != nil {
		t.Fatal(err)
	}
	s.Send(single([]byte("y")))
	if a.rang != 1 {
		t.Errorf("the bell rang %d times for an endpoint that sleeps, want once", a.rang)
	}
	b.EndWait()
}

// A link that replaces a directory immediately after it was made is not shared. docs/protocol §28.1.
func TestLinkIsNotShared(t *testing.T) {
	here := t.TempDir()
	victim, link := filepath.Join(here, "victim"), filepath.Join(here, "link")
	if err := os.Mkdir(victim, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, link); err != nil {
		t.Fatal(err)
	}
	d := &dir{place: place{shared: true, id: os.Getegid()}}
	if _, err := d.openAt(unix.AT_FDCWD, link, link); err == nil {
		t.Error("the target of a link was shared")
	}
	if st, err := os.Stat(victim); err != nil || st.Mode() != fs.ModeDir|0o700 {
		t.Errorf("victim's directory: mode %v, error %v, want %v", st.Mode(), err, fs.ModeDir|0o700)
	}
}

// Replacing the directory of a running fabric does not mislead its endpoints. docs/protocol §28.1.
func TestDirectoryReplaced(t *testing.T) {
	a, b, s := pair(t, Config{})
	moved := a.fabric.path + "x"
	if err := errors.Join(os.Rename(a.fabric.path, moved), os.Mkdir(a.fabric.path, 0o700)); err != nil {
		t.Fatal(err)
	}
	for b.BeginWait(-1) == 0 { // the event of its own join woke the endpoint
		b.EndWait()
	}
	s.Send(single([]byte("x"))) // opens b's bell
	if a.rang != 1 {
		t.Errorf("the bell rang %d times, want once", a.rang)
	}
	b.EndWait()
	b.Close()
	if got := files(moved); len(got) != 3 {
		t.Errorf("after one of two endpoints closed, these files exist: %q", got)
	}
	if err := errors.Join(os.Remove(a.fabric.path), os.Rename(moved, a.fabric.path)); err != nil {
		t.Fatal(err)
	}
}

// Packets in blocks of a window are read in place and not copied. docs/protocol §28.5.
func TestInPlace(t *testing.T) {
	a, b, s := pair(t, Config{})
	mem, err := a.AllocBlocks(2, chunkBytes)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Free(mem)
	out := single(mem[chunkBytes+8192:][:100])
	copy(out.Data, "here")
	s.Send(out)
	fetched := transport.NewBatch(batch)
	if err := b.Poll(fetched); err != nil || len(fetched.Trains) != 1 {
		t.Fatalf("Poll: %d trains, error %v, want 1", len(fetched.Trains), err)
	}
	copy(out.Data, "seen")
	if got := string(fetched.Trains[0].Data[:4]); got != "seen" {
		t.Errorf("%q was copied, want seen", got)
	}
	b.Release(&fetched.Trains[0])
}

// When no chunk is free, a window's block moves to heap memory, from which packets are copied, and no endpoint waits.
// docs/protocol §28.6.
func TestNoChunkForWindow(t *testing.T) {
	a, b, s := pair(t, Config{})
	mem, err := a.AllocBlocks(1, chunkBytes)
	if err != nil {
		t.Fatal(err)
	}
	s.Send(single(mem[:100])) // b does not read it
	a.pool.fresh, a.pool.freed = maxChunks, nil
	block := a.Renew(mem)
	if _, _, ok := a.own.chunkOf(block); ok || len(block) != chunkBytes {
		t.Fatalf("block of %d bytes, in shared memory: %v, want %d outside of it", len(block), ok, chunkBytes)
	}
	if again := a.Renew(block); &again[0] != &block[0] {
		t.Error("heap memory was exchanged")
	}
	end(a)
	block[0] = 1 // the memory is valid until everything is freed
	a.Free(mem)
	if a.windows.private != nil || a.own.mem != nil {
		t.Error("memory is still allocated after everything was freed")
	}
	b.Stats()
}

// Windows use at most a quarter of the chunks, and heap memory beyond that. docs/protocol §28.6.
func TestWindowsLeaveEnough(t *testing.T) {
	a := mustOpen(t, Config{Name: "many", Dir: ownDir(t)})
	var all [][]byte
	shared := 0
	for range 2 * maxChunks / 4 / 64 {
		mem, err := a.AllocBlocks(64, chunkBytes)
		if err != nil {
			t.Fatal(err)
		}
		if all = append(all, mem); a.windows.rows > shared {
			shared++
		}
	}
	if got := 64 * shared; got > maxChunks/4 || got < maxChunks/4-64 {
		t.Errorf("windows use %d of %d chunks, want a quarter", got, maxChunks)
	}
	if mem, err := a.AllocBlocks(3, 1000); err != nil || len(mem) != 3000 { // from heap memory
		t.Errorf("AllocBlocks: %d bytes, error %v, want 3000", len(mem), err)
	} else {
		all = append(all, mem)
	}
	end(a)
	for _, mem := range all {
		a.Free(mem)
	}
	if _, err := a.AllocBlocks(1, chunkBytes); !errors.Is(err, errClosed) {
		t.Error(err)
	}
}

// small mounts a file system of the size, such as 16m (tmpfs(5)), and returns a directory in it.
func small(t *testing.T, size string) (dir string) {
	t.Helper()
	return smallBy(t, "size="+size)
}

// smallBy does so with any options of tmpfs(5).
func smallBy(t *testing.T, options string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		testenv.Skip(t, "tmpfs cannot be mounted: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// In a small file system a stopped reader leaves enough memory for an active one, whatever the sizes of trains.
// docs/protocol §28.6.
func TestShortOfMemory(t *testing.T) {
	cfg := Config{Name: "short", Dir: small(t, "16m")}
	a, stopped, reads := mustOpen(t, cfg), mustOpen(t, cfg), mustOpen(t, cfg)
	for _, tr := range []*Transport{stopped, reads} {
		tr.Join(0)
	}
	s, _ := a.NewSender(0)
	packet := bytes.Repeat([]byte("x"), 60_000)
	fetched := transport.NewBatch(batch)
	for i := range 3000 {
		s.Send(single(packet[:1+i*7919%len(packet)]))
		if err := reads.Poll(fetched); err != nil || len(fetched.Trains) != 1 {
			t.Fatalf("train %d: %d received, error %v, want 1", i, len(fetched.Trains), err)
		}
		reads.Release(&fetched.Trains[0])
	}
	for _, tr := range []*Transport{a, stopped, reads} {
		end(tr)
	}
}

// A failed Open leaves no file.
func TestFailedOpenLeavesNoFile(t *testing.T) {
	for _, size := range []string{"60k", "4k"} { // "4k": too small even for the members file
		dir := small(t, size)
		if _, err := open(Config{Name: "x", Dir: dir}); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("open in %v: error %v, want %v", size, err, unix.ENOSPC)
		}
		if left := files(dir); len(left) > 0 {
			t.Errorf("size %s: files left %q, want none", size, left)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("size %s: files left %v, want none", size, left)
		}
	}
}

// Without memory for a lane nothing is sent in it, and without memory for returned positions nothing is fetched, until
// memory is available. Both are counted. docs/protocol §28.3.
func TestNoMemoryForLane(t *testing.T) {
	for _, c := range []struct {
		name    string
		left    int // bytes in addition to the initial size of an endpoint's file
		counted func(sender, reader stats.Transport) uint64
	}{
		{"no memory for a lane", ringBytes - pageBytes, func(sender, _ stats.Transport) uint64 { return sender.SendNoMemory }},
		{"no memory for returned positions", ringBytes + 2*pageBytes, func(_, reader stats.Transport) uint64 { return reader.ReceiveErrors }},
	} {
		cfg := Config{Name: "late", Dir: small(t, "1m")}
		a := mustOpen(t, cfg)
		full, err := os.Create(filepath.Join(cfg.Dir, "full"))
		if err != nil {
			t.Fatal(err)
		}
		defer full.Close()
		var st unix.Statfs_t
		if err := unix.Statfs(cfg.Dir, &st); err != nil {
			t.Fatal(err)
		}
		if err := allocate(int(full.Fd()), 0, int(st.Bavail)*int(st.Bsize)-atRings-c.left); err != nil {
			t.Fatal(err)
		}
		b := mustOpen(t, cfg)
		b.Join(0)
		s, _ := a.NewSender(0)
		s.Send(single([]byte("early")))
		fetched := transport.NewBatch(batch)
		if err := b.Poll(fetched); err != nil || len(fetched.Trains) != 0 {
			t.Fatalf("%s: %d trains received, error %v, want none", c.name, len(fetched.Trains), err)
		}
		b.BeginWait(0) // the event of its own join woke the endpoint
		b.EndWait()
		if b.BeginWait(time.Minute) == 0 && c.left > ringBytes {
			t.Errorf("%s: the endpoint does not sleep, but retries without end", c.name)
		}
		b.EndWait()
		if c.counted(a.Stats().Transport, b.Stats().Transport) == 0 {
			t.Errorf("%s: the failure is not counted", c.name)
		}
		if err := full.Truncate(0); err != nil {
			t.Fatal(err)
		}
		for transfer(t, a, b, s, "x") == "" {
		}
		end(a)
		end(b)
	}
}

// Endpoints that do not send to each other use little memory, however many there are. docs/protocol §28.3.
func TestIdleMemory(t *testing.T) {
	cfg := Config{Name: "idle", Dir: t.TempDir()}
	var all []*Transport
	for range 20 {
		x := mustOpen(t, cfg)
		x.Join(0)
		all = append(all, x)
	}
	for _, x := range all {
		if err := x.Poll(transport.NewBatch(1)); err != nil {
			t.Fatal(err)
		}
		if n := len(*x.known.Load()); n != len(all) { // including itself
			t.Fatalf("the endpoint is connected to %d, want %d", n, len(all))
		}
	}
	for _, x := range all {
		var st unix.Stat_t
		if err := unix.Fstat(x.own.fd, &st); err != nil {
			t.Fatal(err)
		}
		if used := st.Blocks * 512; used > atRings {
			t.Errorf("an endpoint of %d that sends nothing uses %d bytes, want at most %d", len(all), used, atRings)
		}
	}
	// A packet that is sent once needs memory only in its lane.
	s, _ := all[0].NewSender(0)
	all[1].Leave(0)
	s.Send(single([]byte("x")))
	var st unix.Stat_t
	unix.Fstat(all[0].own.fd, &st)
	if used, maximum := st.Blocks*512, int64(atRings+(len(all)-1)*ringBytes+4*pageBytes); used > maximum { // one lane leads to the endpoint itself
		t.Errorf("%d bytes for %d lanes, want %d", used, len(all)-1, maximum)
	}
	for _, x := range all {
		end(x)
	}
}

// Trains for which a lane had no room are counted where they are missing: with the first train that was sent after
// them, however many entries are read at a time, and at the end of the lane. docs/protocol §28.4.
func TestDroppedWhereMissing(t *testing.T) {
	_, b, s := pair(t, Config{QueueTrains: 100})
	had, buf := depth(b), transport.NewBatch(40)
	send := func(n int) {
		for range n {
			if _, err := s.Send(single([]byte("x"))); err != nil {
				t.Fatal(err)
			}
		}
	}
	poll := func() (trains int) {
		if err := b.Poll(buf); err != nil {
			t.Fatal(err)
		}
		for i := range buf.Trains {
			b.Release(&buf.Trains[i])
		}
		return len(buf.Trains)
	}
	send(had + 3) // of which three are dropped
	got := poll()
	send(1)
	for got < had {
		if n := b.Stats().ReceiveOverflow; n != 0 {
			t.Fatalf("%d counted as dropped after %d of %d trains", n, got, had)
		}
		got += poll()
	}
	if got != had+1 {
		poll()
	}
	if n := b.Stats().ReceiveOverflow; n != 3 {
		t.Errorf("%d counted as dropped, want 3", n)
	}
	send(had + 70_000) // more than an entry can state
	for poll() > 0 {
	}
	if n := b.Stats().ReceiveOverflow; n != 70_003 {
		t.Errorf("%d counted as dropped, want 70003", n)
	}
}

// A reader that keeps trains while its lane wraps around receives all others in order, or the number of those lost: no
// unread train is overwritten, however many it keeps, and neither side marks the other bad. docs/protocol §28.6.
func TestKeptWhileLaneWrapsAround(t *testing.T) {
	for queue, steps := range map[int]int{maxQueue: 15_000, 1024: 130_000} {
		for _, share := range []float64{0.2, 0.8} {
			t.Run(fmt.Sprint(queue, " ", share), func(t *testing.T) {
				a, b, s := pair(t, Config{QueueTrains: queue})
				to, from := peerOf(a, b), peerOf(b, a)
				one := transport.NewBatch(1)
				var kept []transport.Train
				give := func(n int) {
					for i := range n {
						b.Release(&kept[i])
					}
					kept = kept[n:]
				}
				keep, passed := 0.0, 0
				for step := range steps {
					for was := to.tail - 1; was != to.tail; { // as many as there is room for
						was = to.tail
						if _, err := s.Send(single([]byte("x"))); err != nil {
							t.Fatal(err)
						}
					}
					if ahead := to.tail - from.next; ahead > laneSlots {
						t.Fatalf("step %d: %d positions are unread, want at most %d", step, ahead, laneSlots)
					}
					passed = max(passed, to.voids)
					if err := b.Poll(one); err != nil {
						t.Fatal(err)
					}
					if len(one.Trains) == 0 {
						give(min(len(kept), 1))
						continue
					}
					if keep += min(share, 0.15+float64(step)/200_000); keep >= 1 { // an increasing share

						keep--
						kept = append(kept, one.Trains[0])
					} else {
						b.Release(&one.Trains[0])
					}
					for len(kept) > 0 && (len(kept) > maxLend+batch-10 || to.tail-uint64(uint32(kept[0].Lease)) > laneSlots+8) {
						give(1)
					}
				}
				give(len(kept))
				// It returns the kept trains, and then receives new ones.
				for last := from.next - 1; last != from.next; {
					last = from.next
					if err := b.Poll(one); err != nil {
						t.Fatal(err)
					}
					for i := range one.Trains {
						b.Release(&one.Trains[i])
					}
				}
				if got := transfer(t, a, b, s, "new"); got != "new" || a.Stats().ReceiveErrors+b.Stats().ReceiveErrors != 0 {
					t.Errorf("received %q, %d and %d receive errors, want new and none", got, a.Stats().ReceiveErrors, b.Stats().ReceiveErrors)
				}
				if passed == 0 {
					t.Error("no train was dropped")
				}
			})
		}
	}
}
