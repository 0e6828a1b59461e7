package shm

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub"
)

// small is a directory in a file system that has memory for so many MiB.
func small(t *testing.T, size string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		testenv.Skip(t, "no memory file system can be mounted: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// fill takes all memory that a directory has, but for a page.
func fill(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const page = 4096
	size := int64(0)
	for unix.Fallocate(int(f.Fd()), 0, size, page) == nil {
		size += page
	}
	if err := f.Truncate(size - page); err != nil {
		t.Fatal(err)
	}
}

// When somebody else has taken all memory of the host, heartbeats still come by shared memory and data does not. A subscriber
// with the wire, too, gets all from there, whether the wire was muted before or not. docs/protocol.md §23.12.
func TestFullMemoryLosesNothing(t *testing.T) {
	for _, c := range []struct {
		name  string
		muted bool
	}{{"muted before", true}, {"silent before", false}} {
		t.Run(c.name, func(t *testing.T) {
			dir := small(t, "8m")
			p := meet(t, dir)
			for c.muted && p.muted() == 0 {
				p.passes([]byte("before"), p.sub)
			}
			fill(t, dir)
			for i := range byte(100) {
				p.passes(bytes.Repeat([]byte{i}, 20_000), p.sub)
			}
			if lacked := p.from.Stats().Transport.SendNoMemory; lacked == 0 {
				t.Error("there was memory for all")
			}
			p.lostNothing()
		})
	}
}

// Where shared memory brings heartbeats alone, one who comes gets from the wire what was sent before, though another
// subscription has all of that and keeps the wire muted; and what follows comes. docs/protocol.md §23.12.
func TestHeartbeatsAloneOfMemory(t *testing.T) {
	p := meet(t, scratch(t))
	const before = "before"
	for p.muted() == 0 {
		p.passes([]byte(before), p.sub)
	}
	p.memory.cutData.Store(true)
	late, err := p.to.Subscribe(topic, pubsub.From(pubsub.Window))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		p.next([]byte(before), late)
	}
	late.Close()
	for i := range byte(100) {
		p.passes(bytes.Repeat([]byte{i}, 2000), p.sub)
	}
	p.lostNothing()
}

// pair is a publisher and a subscriber of one host, both on the wire and on shared memory.
type pair struct {
	t        *testing.T
	ctx      context.Context
	from, to *pubsub.Bus
	memory   *cuttable // of the publisher
	pub      *pubsub.Publisher
	sub      *pubsub.Subscription
}

// meet opens a pair whose shared memory is in dir.
func meet(t *testing.T, dir string) *pair {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	p := &pair{t: t, ctx: ctx}
	n := network{t, testenv.Port(t), dir}
	var toMemory *cuttable
	p.from, p.to = n.bus(&p.memory), n.bus(&toMemory)
	var err error
	if p.pub, err = p.from.Publisher(topic); err != nil {
		t.Fatal(err)
	}
	if p.sub, err = p.to.Subscribe(topic); err != nil {
		t.Fatal(err)
	}
	if err := p.pub.WaitSubscribers(ctx, 1); err != nil {
		t.Fatal(err)
	}
	return p
}

// passes publishes a message and has a subscription get it.
func (p *pair) passes(msg []byte, sub *pubsub.Subscription) {
	p.t.Helper()
	if err := p.pub.Publish(p.ctx, msg); err != nil {
		p.t.Fatal(err)
	}
	if err := p.pub.Flush(p.ctx); err != nil {
		p.t.Fatal(err)
	}
	p.next(msg, sub)
}

func (p *pair) next(want []byte, sub *pubsub.Subscription) {
	p.t.Helper()
	if m, err := sub.Next(p.ctx); err != nil || !bytes.Equal(m.Data, want) {
		p.t.Fatalf("%d bytes came, not %d: %v", len(m.Data), len(want), err)
	}
}

// muted is of how many streams the subscriber's wire is muted.
func (p *pair) muted() int { return p.to.Stats().Legs[0].Muted }

func (p *pair) lostNothing() {
	p.t.Helper()
	for _, g := range p.to.Stats().Groups {
		if g.Lost > 0 {
			p.t.Errorf("%d packets are lost", g.Lost)
		}
	}
}
