package ud_test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/fanfaremq/fanfare/rdma/fabric"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/ud"
)

func alloc(t *testing.T, n *node, bytes int) []byte {
	t.Helper()
	mem, err := n.Alloc(bytes)
	if err != nil {
		t.Fatal(err)
	}
	if len(mem) != bytes {
		t.Fatalf("Alloc(%d) returned %d bytes, want all", bytes, len(mem))
	}
	return mem
}

// sendFrom sends text from memory of Alloc, and waits until it arrives.
func (r *rig) sendFrom(mem []byte, to transport.Sender, sub *node, text string) {
	r.t.Helper()
	n := copy(mem, text)
	if got, err := to.Send(&transport.Outbound{Data: mem[:n], Stride: n, Count: 1, Lens: []uint16{uint16(n)}}); got != 1 {
		r.t.Fatal(err)
	}
	r.want(sub, 0, text)
}

// Receive slots, staging buffers and memory of Alloc are one memory region.
func TestOneRegion(t *testing.T) {
	r := newRig(t, fabric.Config{})
	ps, ss := newSpy(r.f), newSpy(r.f)
	const arena = 1 << 20
	pub, sub := r.node(ud.Config{Provider: ps, Arena: arena}), r.node(ud.Config{Provider: ss})
	sub.retain = true
	r.join(sub, 0)
	to := r.sender(pub, 0)
	for round := range 3 {
		var all [][]byte
		for i := range 4 {
			mem := alloc(t, pub, arena/4-100*i)
			for j, b := range mem {
				if b != 0 {
					t.Fatalf("round %d: byte %d of new memory is %#x, want 0", round, j, b)
				}
			}
			r.sendFrom(mem, to, sub, fmt.Sprint("from part ", i))
			all = append(all, mem)
		}
		for i, mem := range all { // no allocation overlaps another
			if want := fmt.Sprint("from part ", i); string(mem[:len(want)]) != want {
				t.Errorf("part %d has %q, want %q", i, mem[:len(want)], want)
			}
			for j := range mem {
				mem[j] = 0xFF
			}
			pub.Free(mem)
		}
	}
	r.send(to, "staged")
	r.want(sub, 0, "staged")
	if err := sub.Reply(sub.peer, []byte("a reply")); err != nil {
		t.Fatal(err)
	}
	r.want(pub, transport.Unicast, "a reply")
	if ps.regions != 1 || ss.regions != 1 {
		t.Errorf("the publisher has %d regions, the subscriber %d; want 1 each", ps.regions, ss.regions)
	}
	// Allocated memory stays valid after the transport's end, in the same region.
	last := alloc(t, pub, arena)
	r.close(pub)
	if ps.regions != 0 {
		t.Errorf("%d regions at the end, want none", ps.regions)
	}
	for i := range last {
		last[i] = 1
	}
	pub.Free(last)
	pub.Free(last) // its region is already released
}

// Beyond Config.Arena the arena grows by few regions that are not much larger than necessary. Each is released when
// nothing of it is used.
func TestArenaGrowsByFewRegions(t *testing.T) {
	r := newRig(t, fabric.Config{})
	s := newSpy(r.f)
	pub, sub := r.node(ud.Config{Provider: s, ReceiveQueue: 64, SendQueue: 16}), r.node(ud.Config{})
	r.join(sub, 0)
	to := r.sender(pub, 0)
	own := s.locked
	const parts, bytes = 500, 64 << 10
	var all [][]byte
	for i := range parts {
		mem := alloc(t, pub, bytes)
		r.sendFrom(mem, to, sub, fmt.Sprint("from part ", i))
		all = append(all, mem)
	}
	// Each region is a quarter of all earlier ones, so that n of them have own * 1.25^n bytes: 1.25^20 is 86.
	if total := own + parts*bytes; s.regions > 1+20 || s.locked > total+total/4 {
		t.Errorf("%d allocations of %d bytes, beyond %d bytes, made %d regions with %d bytes", parts, bytes, own, s.regions, s.locked)
	}
	if s.regions < 2 {
		t.Error("nothing was registered in addition: the test proves nothing")
	}
	for i, mem := range all {
		if want := fmt.Sprint("from part ", i); string(mem[:len(want)]) != want {
			t.Fatalf("part %d has %q, want %q", i, mem[:len(want)], want)
		}
		pub.Free(mem)
	}
	if s.regions != 1 || s.locked != own {
		t.Errorf("after everything was freed, %d regions with %d bytes remain, want 1 with %d", s.regions, s.locked, own)
	}
	// A large allocation is a region by itself.
	big := alloc(t, pub, 8<<20)
	if s.regions != 2 || s.locked != own+8<<20 {
		t.Errorf("with 8 MiB: %d regions with %d bytes, want 2 with %d", s.regions, s.locked, own+8<<20)
	}
	r.sendFrom(big[8<<20-64:], to, sub, "from its end")
	pub.Free(big)
}

// If the system cannot lock enough memory, the arena grows by the minimum. If that fails, too, the error has advice.
func TestLockedMemoryLimit(t *testing.T) {
	r := newRig(t, fabric.Config{})
	s := newSpy(r.f)
	pub, sub := r.node(ud.Config{Provider: s}), r.node(ud.Config{})
	r.join(sub, 0)
	to := r.sender(pub, 0)
	s.memlock = s.locked + 4096
	mem := alloc(t, pub, 4000) // a quarter of the arena would be far more
	r.sendFrom(mem, to, sub, "just fits")
	_, err := pub.Alloc(4000)
	if !errors.Is(err, syscall.ENOMEM) || !strings.Contains(err.Error(), "ulimit -l") {
		t.Errorf("beyond the limit: %v", err)
	}
	if s.regions != 2 {
		t.Errorf("%d regions, want 2", s.regions)
	}
	pub.Free(mem)
	r.sendFrom(alloc(t, pub, 4000), to, sub, "fits again")

	s = newSpy(r.f)
	s.memlock = 1 << 20
	if _, err := ud.Open(ud.Config{Provider: s}); !errors.Is(err, syscall.ENOMEM) || !strings.Contains(err.Error(), "ulimit -l") {
		t.Errorf("Open: error %v, want %v with advice on ulimit -l", err, syscall.ENOMEM)
	}
	if _, err := ud.Open(ud.Config{Provider: s, Arena: -1}); err == nil {
		t.Error("an arena of -1 bytes was accepted")
	}
}
