package shm

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/transport"
)

// pair makes two connected endpoints. b has joined group 0, and s sends to it.
func pair(t *testing.T, cfg Config) (a, b *Transport, s transport.Sender) {
	t.Helper()
	cfg.Name, cfg.Dir = "pair", ownDir(t)
	a, b = mustOpen(t, cfg), mustOpen(t, cfg)
	t.Cleanup(func() { end(a); end(b) })
	if err := b.Join(0); err != nil {
		t.Fatal(err)
	}
	s, err := a.NewSender(0)
	if err != nil {
		t.Fatal(err)
	}
	if got := transfer(t, a, b, s, "first"); got != "first" {
		t.Fatalf("received %q, want first", got)
	}
	return a, b, s
}

// transfer sends a packet from a by s, and returns all packets that b then has received.
func transfer(t *testing.T, a, b *Transport, s transport.Sender, text string) string {
	t.Helper()
	if _, err := s.Send(&transport.Outbound{Data: []byte(text), Stride: len(text), Count: 1, Lens: []uint16{uint16(len(text))}}); err != nil {
		t.Fatal(err)
	}
	var got []string
	batch := transport.NewBatch(16)
	for range 3 {
		for _, tr := range []*Transport{a, b} {
			if err := tr.Poll(batch); err != nil {
				t.Fatal(err)
			}
			for i := range batch.Trains {
				for j := range batch.Trains[i].Count() {
					got = append(got, string(batch.Trains[i].Packet(j)))
				}
				tr.Release(&batch.Trains[i])
			}
		}
	}
	return strings.Join(got, " ")
}

// peerOf returns t's peer for the other endpoint.
func peerOf(t *Transport, other *Transport) *peer {
	for _, p := range *t.known.Load() {
		if p.id == other.own.id {
			return p
		}
	}
	return nil
}

// An endpoint that writes misleading values into its file is marked bad, counted as an error, and does not affect
// others. docs/protocol §28.7.
func TestGarbage(t *testing.T) {
	for name, markBad := range map[string]func(a, b *Transport){
		"chunk":    func(a, b *Transport) { forge(a, b, entry{maxChunks, 0, 10, 10, 0, 0}) },
		"bytes":    func(a, b *Transport) { forge(a, b, entry{0, 1, chunkBytes, 10, 0, 0}) },
		"offset":   func(a, b *Transport) { forge(a, b, entry{0, chunkBytes - 9, 10, 10, 0, 0}) },
		"empty":    func(a, b *Transport) { forge(a, b, entry{0, 0, 10, 0, 0, 0}) },
		"size":     func(a, b *Transport) { forge(a, b, entry{0, 0, 10, 11, 0, 0}) },
		"packet":   func(a, b *Transport) { forge(a, b, entry{0, 0, chunkBytes, maxPacket + 1, 0, 0}) },
		"group":    func(a, b *Transport) { forge(a, b, entry{0, 0, 10, 10, maxGroups, 0}) },
		"negative": func(a, b *Transport) { forge(a, b, entry{0, 0, 10, 10, -2, 0}) },
	} {
		for _, distrust := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				a, b, s := pair(t, Config{distrust: distrust})
				markBad(a, b)
				transfer(t, a, b, s, "x")
				if n := b.Stats().ReceiveErrors; n != 1 {
					t.Errorf("%d receive errors, want 1", n)
				}
				if got := transfer(t, a, b, s, "y"); got != "" {
					t.Errorf("received %q from an endpoint that is marked bad", got)
				}
				c := mustOpen(t, Config{Name: "pair", Dir: a.cfg.Dir})
				defer end(c)
				sc, _ := c.NewSender(0)
				if got := transfer(t, c, b, sc, "from another"); got != "from another" {
					t.Errorf("received %q, want \"from another\"", got)
				}
			})
		}
	}
}

// forge writes an entry into the lane from a to b.
func forge(a, b *Transport, e entry) {
	p := peerOf(a, b)
	x, y := e.words(p.tail)
	at := ringAt(p.slot, p.tail)
	word(a.own.mem, at).Store(x)
	word(a.own.mem, at+8).Store(y)
	p.tail++
}

// A reader that returns chunks that it was not lent is marked bad. docs/protocol §28.7.
func TestGarbageReturned(t *testing.T) {
	for name, markBad := range map[string]func(b *Transport, slot int){
		"far":   func(b *Transport, slot int) { word(b.own.mem, returnedAt(slot)).Add(laneSlots + 1) },
		"twice": func(b *Transport, slot int) { word(b.own.mem, returnedAt(slot)).Add(1) },
		"others": func(b *Transport, slot int) {
			half(b.own.mem, returnsAt(slot, 1)).Store(99)
			word(b.own.mem, returnedAt(slot)).Add(1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b, s := pair(t, Config{})
			markBad(b, peerOf(b, a).slot)
			transfer(t, a, b, s, "x")
			transfer(t, a, b, s, "y")
			if n := a.Stats().ReceiveErrors; n != 1 {
				t.Errorf("%d receive errors, want 1", n)
			}
			if n := a.pool.left(); n != maxChunks {
				t.Errorf("%d of %d chunks are free, want all", n, maxChunks)
			}
		})
	}
}

// Random bytes anywhere in a peer's file cause an error of that peer at most.
func TestRandomBytes(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 28))
		a, b, s := pair(t, Config{distrust: seed%2 == 0})
		for range 300 {
			word(a.own.mem, rng.IntN(atRings/8)*8).Store(rng.Uint64() >> rng.IntN(64))
			p := peerOf(a, b)
			word(a.own.mem, ringAt(p.slot, rng.Uint64())).Store(rng.Uint64() >> rng.IntN(64))
			if b.joined(0) {
				batch := transport.NewBatch(16)
				if err := b.Poll(batch); err != nil {
					t.Fatal(err)
				}
				for i := range batch.Trains {
					b.Release(&batch.Trains[i])
				}
			}
		}
		_ = s
	}
}

// If another user truncates its file, reads of it return an error instead of causing SIGBUS. docs/protocol §28.7.
func TestTruncate(t *testing.T) {
	a, b, s := pair(t, Config{distrust: true})
	big := bytes.Repeat([]byte("x"), 60_000)
	if _, err := s.Send(&transport.Outbound{Data: big, Stride: len(big), Count: 1, Lens: []uint16{uint16(len(big))}}); err != nil {
		t.Fatal(err)
	}
	// The first truncation removes only a's chunks, the second everything.
	for _, bytes := range []int64{atChunks, 0} {
		if err := unix.Ftruncate(a.own.fd, bytes); err != nil {
			t.Fatal(err)
		}
		batch := transport.NewBatch(16)
		for range 3 {
			if err := b.Poll(batch); err != nil {
				t.Fatal(err)
			}
			if len(batch.Trains) > 0 {
				t.Fatalf("a train of %d bytes that do not exist", len(batch.Trains[0].Data))
			}
		}
		b.Stats()
		b.Wait(0)
	}
	if n := b.Stats().ReceiveErrors; n == 0 {
		t.Error("the error is not counted")
	}
	if err := unix.Ftruncate(a.own.fd, fileBytes); err != nil { // otherwise a itself would fail
		t.Fatal(err)
	}
}

// Directories and files that belong to others, or are open to them, are rejected with advice.
func TestDirectories(t *testing.T) {
	parent := func(dir string) string { return filepath.Join(dir, "fanfare-"+strconv.Itoa(os.Geteuid())) }
	for name, c := range map[string]struct {
		make     func(dir string) error
		wantText string
		root     bool
	}{
		"file": {func(dir string) error { return os.WriteFile(parent(dir), nil, 0o600) }, "is not a directory: remove it", false},
		"link": {func(dir string) error { return os.Symlink("/tmp", parent(dir)) }, "is not a directory: remove it", false},
		"open": {func(dir string) error { return errors.Join(os.Mkdir(parent(dir), 0o700), os.Chmod(parent(dir), 0o777)) }, "gives others access", false},
		"another's": {func(dir string) error {
			return errors.Join(os.Mkdir(parent(dir), 0o700), os.Chown(parent(dir), 65534, 65534))
		}, "belongs to user 65534", true},
		"roll": {func(dir string) error {
			return os.MkdirAll(filepath.Join(parent(dir), "x", membersName), 0o700)
		}, "roll", false},
	} {
		t.Run(name, func(t *testing.T) {
			if c.root && os.Geteuid() != 0 {
				testenv.Skip(t, "only root can change the owner of a directory")
			}
			dir := t.TempDir()
			if err := c.make(dir); err != nil {
				t.Fatal(err)
			}
			if _, err := open(Config{Name: "x", Dir: dir}); err == nil || !strings.Contains(err.Error(), c.wantText) {
				t.Errorf("error %v, want one with %q", err, c.wantText)
			}
		})
	}
	if _, err := open(Config{Name: "x", Dir: "/nowhere"}); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := open(Config{Name: "x", Dir: t.TempDir(), Group: "no-such-group"}); err == nil || !strings.Contains(err.Error(), "no-such-group") {
		t.Error(err)
	}
}

// A peer that keeps writing descriptors for groups without members, as fast as they are skipped, does not occupy a
// reader: it reads at most as many at a time as a lane has. docs/protocol §28.7.
func TestEndlessDescriptors(t *testing.T) {
	for _, distrust := range []bool{false, true} {
		t.Run(fmt.Sprint("other user ", distrust), func(t *testing.T) {
			a, b, _ := pair(t, Config{distrust: distrust})
			from := peerOf(b, a)
			var stop atomic.Bool
			written := make(chan struct{})
			go func() {
				defer close(written)
				returned := word(b.own.mem, returnedAt(from.slot)) // the position of the reader
				for begun, n := returned.Load(), uint64(0); !stop.Load(); {
					if 2*(n-(returned.Load()-begun)) < laneSlots-2 {
						forge(a, b, entry{chunk: void})
						forge(a, b, entry{0, 0, 10, 10, 5, 0})
						n++
					}
				}
			}()
			maximum, all := uint64(0), from.next
			for polls := 0; polls < 2000 || from.next-all < 4*laneSlots; polls++ {
				before := from.next
				if err := b.Poll(transport.NewBatch(16)); err != nil {
					t.Fatal(err)
				}
				maximum = max(maximum, from.next-before)
			}
			stop.Store(true)
			<-written
			if maximum > laneSlots || from.bad.Load() {
				t.Errorf("%d descriptors are read at a time, bad %v, want at most %d and false", maximum, from.bad.Load(), laneSlots)
			}
		})
	}
}
