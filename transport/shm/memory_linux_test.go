package shm

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/transport"
)

// Packets that are lost because memory is exhausted are counted by the sender, those that a reader does not fetch in
// time by the reader. docs/protocol §28.6.
func TestNoMemoryIsNotOverflow(t *testing.T) {
	packet := bytes.Repeat([]byte("x"), 60_000)
	for _, c := range []struct {
		name     string
		dir      string
		queue    int
		noMemory bool
	}{
		{"memory for few trains", small(t, "4m"), 1024, true},
		{"a queue for few trains", small(t, "400m"), 8, false},
	} {
		cfg := Config{Name: "lack", Dir: c.dir, QueueTrains: c.queue, LendMax: 1}
		a, b := mustOpen(t, cfg), mustOpen(t, cfg)
		b.Join(0)
		s, err := a.NewSender(0)
		if err != nil {
			t.Fatal(err)
		}
		const sent = 1000
		for range sent {
			if n, err := s.Send(single(packet)); n != 1 || err != nil {
				t.Fatalf("Send: %d packets, error %v, want 1", n, err)
			}
		}
		from, received := transport.Source(0), 0
		for fetched := transport.NewBatch(batch); ; {
			if err := b.Poll(fetched); err != nil {
				t.Fatal(err)
			}
			if len(fetched.Trains) == 0 {
				break
			}
			for i := range fetched.Trains {
				from = fetched.Trains[i].From
				b.Release(&fetched.Trains[i])
				received++
			}
		}
		s.Send(single([]byte("the next train states what was dropped before it")))
		fetched := transport.NewBatch(batch)
		if err := b.Poll(fetched); err != nil || len(fetched.Trains) != 1 {
			t.Fatalf("%s: Poll: %d trains, error %v, want 1", c.name, len(fetched.Trains), err)
		}
		noMemoryAt, overflow := a.Stats().SendNoMemory, b.Stats().ReceiveOverflow
		if received == 0 || received == sent || noMemoryAt+overflow != uint64(sent-received) || (noMemoryAt > 0) != c.noMemory || (overflow > 0) == c.noMemory {
			t.Errorf("%s: %d of %d received, %d without memory, %d overflowed", c.name, received, sent, noMemoryAt, overflow)
		}
		// The same holds for replies, which are copied, too.
		peer, err := b.Retain(from)
		if err != nil {
			t.Fatal(err)
		}
		for range sent {
			if err := b.Reply(peer, packet); err != nil {
				t.Fatal(err)
			}
		}
		if noMemoryAt := b.Stats().SendNoMemory; (noMemoryAt > 0) != c.noMemory {
			t.Errorf("%s: %d replies without memory, want some: %v", c.name, noMemoryAt, c.noMemory)
		}
		end(a)
		end(b)
	}
}

// However much an endpoint sends to a reader that does not read, others have memory to join, to connect and to send a
// few short messages and one or two trains. docs/protocol §28.6.
func TestTrainsSpareMemory(t *testing.T) {
	cfg := Config{Name: "spare", Dir: small(t, "8m")}
	stopped := mustOpen(t, cfg)
	stopped.Join(0)
	all := []*Transport{stopped}
	packet := bytes.Repeat([]byte("x"), 60_000)
	for range 8 {
		x := mustOpen(t, cfg)
		all = append(all, x)
		s, err := x.NewSender(0)
		if err != nil {
			t.Fatal(err)
		}
		for range 50 {
			s.Send(single(packet))
			if _, err := x.AllocBlocks(1, chunkBytes); err != nil {
				t.Fatal(err)
			}
		}
	}
	left := func() uint64 {
		var st unix.Statfs_t
		if err := unix.Statfs(cfg.Dir, &st); err != nil {
			t.Fatal(err)
		}
		return st.Bavail * uint64(st.Bsize)
	}
	if n := left(); n < 300_000 || n > 1100_000 {
		t.Errorf("%d bytes are left, want 300,000 to 1,100,000", n)
	}
	a, b := mustOpen(t, cfg), mustOpen(t, cfg)
	b.Join(1)
	late, err := a.NewSender(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"short", string(packet), string(packet)} {
		if got := transfer(t, a, b, late, text); got != text {
			t.Errorf("received %d bytes, want %d", len(got), len(text))
		}
	}
	if n := a.Stats().SendNoMemory; n != 0 {
		t.Errorf("a later endpoint had no memory for %d packets", n)
	}
	for _, x := range append(all, a, b) {
		end(x)
	}
}
