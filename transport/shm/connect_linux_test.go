package shm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/transport"
)

// An endpoint does not connect to a file that is not that of a living endpoint. docs/protocol §28.2, §28.3.
func TestConnect(t *testing.T) {
	a := mustOpen(t, Config{Name: "x", Dir: ownDir(t)})
	defer end(a)
	for name, c := range map[string]struct {
		markBad func(f *ownFile) error
		ready   bool
	}{
		"ready":                   {func(f *ownFile) error { return nil }, true},
		"longer":                  {func(f *ownFile) error { return unix.Ftruncate(f.fd, fileBytes+pageBytes) }, false},
		"shorter":                 {func(f *ownFile) error { return unix.Ftruncate(f.fd, fileBytes-pageBytes) }, false},
		"being made":              {func(f *ownFile) error { word(f.mem, atMagic).Store(0); return nil }, false},
		"with another id":         {func(f *ownFile) error { word(f.mem, atID).Add(2); return nil }, false},
		"ended":                   {func(f *ownFile) error { word(f.mem, atClosed).Store(1); return nil }, false},
		"of a dead endpoint":      {func(f *ownFile) error { return unix.Flock(f.fd, unix.LOCK_UN) }, false},
		"with an excessive depth": {func(f *ownFile) error { word(f.mem, atDepth).Store(1 << 63); return nil }, true},
	} {
		b := mustOpen(t, a.cfg)
		if err := c.markBad(b.own); err != nil {
			t.Fatal(err)
		}
		p, err := a.fabric.connect(b.own.id)
		switch {
		case c.ready && err != nil, !c.ready && !errors.Is(err, errNotReady):
			t.Errorf("%s: connect: error %v, want ready: %v", name, err, c.ready)
		case err == nil && (p.depth < 1 || p.depth > laneSlots):
			t.Errorf("%s: depth %d, want 1 to %d", name, p.depth, laneSlots)
		}
		if err == nil {
			p.close()
		}
		if err := unix.Ftruncate(b.own.fd, fileBytes); err != nil {
			t.Fatal(err)
		}
		end(b)
	}
}

// An endpoint no longer sends to a peer that has announced its end, although the peer's process still holds the lock.
// docs/protocol §28.3.
func TestEndedWithLock(t *testing.T) {
	a, b, s := pair(t, Config{})
	word(b.own.mem, atClosed).Store(1)
	a.fabric.suspect.Store(true)
	if _, err := s.Send(single([]byte("x"))); err != nil {
		t.Fatal(err)
	}
	if p := peerOf(a, b); !p.gone.Load() || a.pool.left() != maxChunks {
		t.Errorf("gone %v, %d of %d chunks are free, want true and all", p.gone.Load(), a.pool.left(), maxChunks)
	}
}

// The remaining packets of a peer that has ended are received, even over several polls that return everything lent.
// docs/protocol §28.5.
func TestEndedAndNotFetched(t *testing.T) {
	for _, distrust := range []bool{false, true} {
		a, b, s := pair(t, Config{distrust: distrust})
		const sent = 5
		for i := range sent {
			if _, err := s.Send(single(fmt.Append(nil, i))); err != nil {
				t.Fatal(err)
			}
		}
		end(a)
		fetched := transport.NewBatch(1)
		for i := range sent {
			if err := b.Poll(fetched); err != nil || len(fetched.Trains) != 1 || string(fetched.Trains[0].Data) != fmt.Sprint(i) {
				t.Fatalf("other user %v, train %d: %d received, error %v, want this one", distrust, i, len(fetched.Trains), err)
			}
			b.Release(&fetched.Trains[0])
		}
		if err := b.Poll(fetched); err != nil || peerOf(b, a) != nil {
			t.Errorf("other user %v: the peer is not removed, or error %v", distrust, err)
		}
	}
}

// An endpoint that joins during another one's scan is found by that scan or the next one. docs/protocol §28.2.
func TestJoinDuringScan(t *testing.T) {
	a := mustOpen(t, Config{Name: "x", Dir: ownDir(t)})
	defer end(a)
	for i := range 200 { // files of size 0, as of starting endpoints, which make the scan long
		if err := os.WriteFile(filepath.Join(a.fabric.path, fileName(uint64(i+1))), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	defer func() {
		for i := range 200 {
			a.fabric.remove(fileName(uint64(i + 1)))
		}
	}()
	for i := range 20 {
		f, err := a.fabric.makeFile(1<<60+uint64(i), 1)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(a.fabric.path, fileName(f.id))
		if err := os.Rename(name, name+"-"); err != nil {
			t.Fatal(err)
		}
		begun, joined := make(chan struct{}), make(chan error, 1)
		go func() {
			<-begun
			err := os.Rename(name+"-", name)
			a.fabric.announce()
			joined <- err
		}()
		close(begun)
		for waits := true; waits; {
			a.fabric.suspect.Store(true)
			a.scanIfNeeded()
			select {
			case err := <-joined:
				if waits = false; err != nil {
					t.Fatal(err)
				}
			default:
			}
		}
		a.scanIfNeeded()
		found := false
		for _, p := range *a.known.Load() {
			found = found || p.id == f.id
		}
		if !found {
			t.Fatalf("endpoint %d was not found", i)
		}
		f.remove(a.fabric)
		f.unmap()
		f.close()
		a.fabric.announce()
		if err := a.Poll(transport.NewBatch(1)); err != nil { // Poll removes the peer
			t.Fatal(err)
		}
	}
}

// An endpoint with a lane in which packets for another one were dropped before counts none of them as lost.
// docs/protocol §28.3.
func TestReusedLaneCountsNoLoss(t *testing.T) {
	a, b, s := pair(t, Config{QueueTrains: 1})
	for range depth(b) + 10 {
		if _, err := s.Send(single([]byte("x"))); err != nil {
			t.Fatal(err)
		}
	}
	slot := peerOf(a, b).slot
	if n := word(a.own.mem, droppedAt(slot)).Load(); n != 10 {
		t.Fatalf("%d were dropped, want 10", n)
	}
	end(b)
	if err := a.Poll(transport.NewBatch(1)); err != nil || peerOf(a, b) != nil {
		t.Fatal("the peer is not removed", err)
	}
	c := mustOpen(t, Config{Name: "pair", Dir: a.cfg.Dir})
	defer end(c)
	if err := c.Join(0); err != nil {
		t.Fatal(err)
	}
	if got := transfer(t, a, c, s, "new"); got != "new" || peerOf(a, c).slot != slot {
		t.Fatalf("received %q in lane %d, want lane %d", got, peerOf(a, c).slot, slot)
	}
	if n := c.Stats().ReceiveOverflow; n != 0 {
		t.Errorf("%d counted as dropped, want none", n)
	}
}

// An impossible number of dropped trains is ignored. docs/protocol §28.7.
func TestImpossibleDropCount(t *testing.T) {
	a, b, s := pair(t, Config{})
	dropped := word(a.own.mem, droppedAt(peerOf(a, b).slot))
	for _, n := range []uint64{1<<64 - 1<<16, 1 << 63, 1<<62 + 1<<16} { // whose low 16 bits, which an entry states, are 0
		dropped.Store(n)
		if got := transfer(t, a, b, s, "x"); got != "x" {
			t.Errorf("received %q, want x", got)
		}
		if n := b.Stats().ReceiveOverflow; n != 0 {
			t.Errorf("%d counted as dropped, want none", n)
		}
	}
	dropped.Store(3)
	if transfer(t, a, b, s, "x"); b.Stats().ReceiveOverflow != 3 {
		t.Errorf("%d counted as dropped, want 3", b.Stats().ReceiveOverflow)
	}
}

// A chunk that a window has exchanged becomes free when its reader returns it. docs/protocol §28.6.
func TestRenewedChunkIsFree(t *testing.T) {
	a, b, s := pair(t, Config{})
	mem, err := a.AllocBlocks(1, chunkBytes)
	if err != nil {
		t.Fatal(err)
	}
	block := mem
	for i := range 50 {
		if _, err := s.Send(single(block[:100])); err != nil {
			t.Fatal(err)
		}
		other := a.Renew(block)
		if &other[0] == &block[0] {
			t.Fatalf("%d: a chunk that is being read is overwritten", i)
		}
		block = other
		fetched := transport.NewBatch(1)
		if err := b.Poll(fetched); err != nil || len(fetched.Trains) != 1 {
			t.Fatalf("Poll: %d trains, error %v, want 1", len(fetched.Trains), err)
		}
		b.Release(&fetched.Trains[0])
	}
	a.mu.Lock()
	a.reap(peerOf(a, b))
	a.mu.Unlock()
	if n := a.pool.left(); n != maxChunks-1 {
		t.Errorf("%d of %d chunks are free, want all but the one in the window", n, maxChunks)
	}
	a.Free(mem)
}

// A descriptor is visible only when complete: a reader that sees its lap also sees its contents. docs/protocol §28.4.
func TestDescriptorIsComplete(t *testing.T) {
	const laps = 100
	a, b, _ := pair(t, Config{})
	to, from := peerOf(a, b), peerOf(b, a)
	first := to.tail
	what := func(pos uint64) entry {
		return entry{chunk: uint32(pos % maxChunks), off: int(pos % chunkBytes), bytes: 1, size: 1}
	}
	torn := make(chan uint64)
	go func() {
		n := uint64(0)
		for pos := first; pos < first+laps*laneSlots; pos++ {
			at := ringAt(to.slot, pos)
			for n := 1; !isCurrent(from.load(at+8), pos); n++ {
				yieldEvery1000(n)
			}
			want, _ := what(pos).words(pos)
			if from.load(at) != want {
				n++
			}
			word(b.own.mem, returnedAt(from.slot)).Store(pos)
		}
		torn <- n
	}()
	returned := word(b.own.mem, returnedAt(from.slot))
	for i := range uint64(laps * laneSlots) {
		for n := 1; i > 4 && first+i-returned.Load() > 4; n++ { // close ahead of the reader
			yieldEvery1000(n)
		}
		a.append(to, what(first+i))
	}
	if n := <-torn; n > 0 {
		t.Errorf("%d of %d descriptors were incomplete", n, laps*laneSlots)
	}
}

// yieldEvery1000 yields the processor in every 1000th turn of a goroutine that waits for another one.
func yieldEvery1000(n int) {
	if n%1000 == 0 {
		runtime.Gosched()
	}
}

// A file that a member of a fabric cannot open does not count as an endpoint, and uses none of its places.
// docs/protocol §28.2.
func TestNotShared(t *testing.T) {
	h, err := enterFabric(Config{Name: "x", Dir: ownDir(t)}, noEndpoint)
	if err != nil {
		t.Fatal(err)
	}
	defer h.withdraw()
	name := fileName(7)
	if err := errors.Join(os.WriteFile(filepath.Join(h.path, name), []byte("x"), 0o600), unix.Fchmodat(h.fd, name, 0, 0)); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 { // root ignores modes
		if err := unix.Fchmod(h.fd, 0o755); err != nil {
			t.Fatal(err)
		}
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer unix.Setfsuid(0)
		_ = unix.Setfsuid(65534)
		if now, _ := unix.SetfsuidRetUid(-1); now != 65534 { // which changes nothing
			testenv.Skip(t, "only root can change the user ID for file access, which is %d", now)
		}
	}
	if fd, err := h.openFile(name, unix.O_RDONLY); !errors.Is(err, fs.ErrPermission) {
		t.Fatalf("openFile: descriptor %d, error %v, want %v", fd, err, fs.ErrPermission)
	}
	if got := h.stateByLock(name); got != dead {
		t.Errorf("state %d, want %d", got, dead)
	}
}

// A directory that others may write to is not removed: they may have put other files there. docs/protocol §28.1, §28.2.
func TestSweepKeepsOpenDirectories(t *testing.T) {
	cfg := Config{Name: "x", Dir: ownDir(t)}
	first := mustOpen(t, cfg)
	defer end(first)
	sibling, err := enterFabric(Config{Name: "beside", Dir: cfg.Dir}, noEndpoint)
	if err != nil {
		t.Fatal(err)
	}
	path := sibling.path
	if err := unix.Fchmod(sibling.fd, 0o777); err != nil {
		t.Fatal(err)
	}
	sibling.leave()
	end(mustOpen(t, cfg))
	if _, err := os.Stat(filepath.Join(path, membersName)); err != nil {
		t.Error(err)
	}
	if err := os.Chmod(path, 0o700); err != nil {
		t.Fatal(err)
	}
	end(mustOpen(t, cfg))
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that is not open to others was not removed: error %v, want %v", err, fs.ErrNotExist)
	}
}
