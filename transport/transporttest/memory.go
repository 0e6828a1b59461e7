package transporttest

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"github.com/fanfaremq/fanfare/transport"
)

// Lent trains do not change while much more traffic arrives than the receive memory holds, and may be released in any
// order.
func testLentMemory(t *testing.T, f *fabric) {
	a, b := f.endpoint(t), f.endpoint(t)
	b.join(0)
	s := a.firstSender(0)
	c := b.Capabilities()
	lend := min(c.LendMax, 100)
	rng := rand.New(rand.NewPCG(1, 2))
	size := min(c.PacketSize, 1200)

	b.hold = true
	var want [][]byte
	// A train may arrive as one, or as a train for each packet: up to 4.
	for i := 0; len(b.held) <= lend-4; i++ {
		n := 1 + i%max(1, min(4, c.MaxTrain, c.MaxTrainBytes/size))
		out, w := train(uint64(i)*100, size, equal(n, size, 1+rng.IntN(size))...)
		a.send(s, out)
		b.want(0, w)
		want = append(want, w...)
	}
	b.hold = false
	flat := func() (all [][]byte) {
		for i := range b.held {
			for j := range b.held[i].Count() {
				all = append(all, b.held[i].Packet(j))
			}
		}
		return all
	}
	check := func() {
		t.Helper()
		for i, p := range flat() {
			if !bytes.Equal(p, want[i]) {
				t.Fatalf("lent packet %d has changed: %s", i, difference(p, want[i]))
			}
		}
	}
	check()
	for i := range 3 * (c.LendMax + c.Batch) {
		out, w := train(uint64(i)<<20, size, size, size)
		a.send(s, out)
		b.want(0, w)
	}
	check()
	// Release in a random order, with traffic in between that reuses the memory.
	for len(b.held) > 0 {
		i := rng.IntN(len(b.held))
		first := 0
		for j := range i {
			first += b.held[j].Count()
		}
		want = append(want[:first], want[first+b.held[i].Count():]...)
		b.Release(&b.held[i])
		b.held = append(b.held[:i], b.held[i+1:]...)
		out, w := train(rng.Uint64(), size, size)
		a.send(s, out)
		b.want(0, w)
		check()
	}
}

// A caller that keeps more trains than allowed is lent less, which is counted; kept trains do not shrink the receive
// queue and do not change; after Release everything works as before.
func testLendLimit(t *testing.T, f *fabric) {
	l := &lending{t: t, f: f, a: f.endpoint(t), b: f.endpointWith(t, Options{Queue: 16})}
	l.b.join(0)
	l.s, l.caps = l.a.firstSender(0), l.b.Capabilities()
	l.size = min(l.caps.PacketSize, 1200)
	l.b.onRecv = func(tr *transport.Train) {
		for i := range tr.Count() {
			if l.b.hold {
				l.kept = append(l.kept, bytes.Clone(tr.Packet(i)))
			}
		}
	}
	l.keepAllowed()
	// If the reading goroutine does not run for a while, packets may be lost in the system's buffer without being counted:
	// then retry.
	limit := time.Now().Add(testTimeout)
	for l.lost(l.keepMore()) {
		if time.Now().After(limit) {
			t.Fatal("packets are lost repeatedly, and no overflow is counted")
		}
	}
	refused := l.b.Stats().LendRefused
	for range 3 {
		out, want := l.next()
		l.a.send(l.s, out)
		l.b.want(0, want)
	}
	if n := l.b.Stats().LendRefused - refused; n != 0 {
		t.Errorf("%d polls were cut short although no train was kept, want none", n)
	}
}

// lending is a sender, and a receiver that keeps trains.
type lending struct {
	t      *testing.T
	f      *fabric
	a, b   *endpoint
	s      transport.Sender
	caps   transport.Capabilities // of b
	size   int                    // of packets
	number uint64
	kept   [][]byte // copies of the packets that b keeps
}

func (l *lending) next() (*transport.Outbound, [][]byte) {
	l.number++
	return train(l.number, l.size, l.size)
}

// push sends a packet while the receiver does not poll.
func (l *lending) push() {
	l.t.Helper()
	out, _ := l.next()
	for limit := time.Now().Add(testTimeout); ; {
		n, err := l.s.Send(out)
		if n == 1 {
			return
		}
		if !errors.Is(err, transport.ErrBusy) || time.Now().After(limit) {
			l.t.Fatal(err)
		}
	}
}

// keepAllowed keeps as many trains as allowed: the receive queue still has its documented capacity.
func (l *lending) keepAllowed() {
	l.t.Helper()
	l.b.hold = true
	for len(l.b.held) < l.caps.LendMax {
		out, want := l.next()
		l.a.send(l.s, out)
		l.b.want(0, want)
	}
	l.b.hold = false
	for range l.caps.ReceiveCapacity {
		l.push()
	}
	l.f.until(l.t, "ReceiveCapacity packets arrive", func() bool { return len(l.b.got) == l.caps.ReceiveCapacity })
	if st := l.b.Stats(); st.LendRefused != 0 || st.ReceiveOverflow != 0 {
		l.t.Fatalf("with %d trains kept, which is allowed: %d polls were cut short, %d packets lost", len(l.b.held), st.LendRefused, st.ReceiveOverflow)
	}
}

// keepMore tries to keep more trains, which is refused, and returns how many packets it sent.
func (l *lending) keepMore() (sent int) {
	l.t.Helper()
	l.b.hold, l.b.got = true, nil
	limit, before := time.Now().Add(testTimeout), l.b.Stats().LendRefused
	maxKept := l.caps.LendMax + l.caps.Batch
	for sent < 2*(l.caps.ReceiveCapacity+maxKept) || l.b.Stats().LendRefused == before {
		l.push()
		sent++
		l.a.poll()
		l.b.poll()
		if len(l.b.held) > maxKept {
			l.t.Fatalf("%d trains are lent; LendMax is %d, Batch %d", len(l.b.held), l.caps.LendMax, l.caps.Batch)
		}
		if time.Now().After(limit) {
			l.t.Fatalf("%d trains are kept of %d that may be, and no poll was cut short", len(l.b.held), l.caps.LendMax)
		}
	}
	if len(l.b.held) <= l.caps.LendMax {
		l.t.Errorf("a poll was cut short with %d trains kept; LendMax is %d", len(l.b.held), l.caps.LendMax)
	}
	at := 0
	for i := range l.b.held {
		for j := range l.b.held[i].Count() {
			if p := l.b.held[i].Packet(j); !bytes.Equal(p, l.kept[at]) {
				l.t.Fatalf("packet %d of those that were kept has changed: %s", at, difference(p, l.kept[at]))
			}
			at++
		}
	}
	return sent
}

// lost releases all trains, waits until all packets sent have arrived or are lost, and reports whether some are lost
// without being counted as overflow.
func (l *lending) lost(sent int) bool {
	l.t.Helper()
	for i := range l.b.held {
		l.b.Release(&l.b.held[i])
	}
	l.b.hold, l.b.held, l.kept = false, nil, nil
	l.f.settleLossy(l.t, l.s, l.b)
	arrived := 0
	for _, p := range l.b.got {
		if len(p.data) == l.size {
			arrived++
		}
	}
	l.b.got = nil
	return arrived < sent && l.b.Stats().ReceiveOverflow == 0 && !l.f.open.NoOverflowCount
}

func testAlloc(t *testing.T, f *fabric) {
	a, b := f.endpoint(t), f.endpoint(t)
	b.join(0)
	s := a.firstSender(0)
	for _, n := range []int{1, 4096, 1 << 20} {
		mem, err := a.Alloc(n)
		if err != nil || len(mem) != n {
			t.Fatalf("Alloc(%d): %d bytes, error %v, want all", n, len(mem), err)
		}
		if at := uintptr(unsafe.Pointer(&mem[0])); at%4096 != 0 {
			t.Errorf("Alloc(%d) begins at %#x, inside a page", n, at)
		}
		for i, x := range mem {
			if x != 0 {
				t.Fatalf("Alloc(%d): byte %d is %#x, want 0", n, i, x)
			}
		}
		size := min(n, 64)
		fill(mem[:size], uint64(n))
		a.send(s, one(mem[:size]))
		b.want(0, [][]byte{append([]byte(nil), mem[:size]...)})
		f.until(t, "the packet is no longer read", func() bool { return s.Completed() == a.Stats().PacketsSent })
		a.Free(mem)
	}
	for _, n := range []int{0, -1} {
		if _, err := a.Alloc(n); err == nil {
			t.Errorf("Alloc(%d): no error", n)
		}
	}
	// The memory stays valid after the end of the transport.
	mem, err := a.Alloc(1 << 16)
	if err != nil {
		t.Fatal(err)
	}
	a.end()
	fill(mem, 1)
	a.Free(mem)
}

// Packets sent from blocks that receivers read in place do not change while they are held, whatever is written after
// Renew; a block that no receiver holds is reused in place. Fabrics without such blocks pass.
func testSharedBlocks(t *testing.T, f *fabric) {
	a, b := f.endpoint(t), f.endpoint(t)
	sharer, ok := a.Transport.(transport.Sharer)
	if !ok {
		return
	}
	b.join(0)
	s := a.firstSender(0)
	c := a.Capabilities()
	size := c.PacketSize
	count := min(c.MaxTrain, c.MaxTrainBytes/size)
	mem, err := sharer.AllocBlocks(2, count*size)
	if err != nil || len(mem) != 2*count*size {
		t.Fatalf("AllocBlocks: %d bytes, error %v, want %d", len(mem), err, 2*count*size)
	}
	block := mem[: count*size : count*size]
	var want [][]byte
	b.hold = true
	for i := range uint64(20) {
		if block = sharer.Renew(block); len(block) != count*size {
			t.Fatalf("a block of %d bytes was replaced by one of %d", count*size, len(block))
		}
		out, w := train(i*100, size, equal(count, size, size)...)
		copy(block, out.Data)
		out.Data = block
		// In two parts, like a block that is not full yet.
		first := *out
		first.Count = 1
		a.send(s, &first)
		if count > 1 {
			rest := transport.Outbound{Data: block[size:], Stride: size, Count: count - 1, Lens: out.Lens[1:]}
			a.send(s, &rest)
		}
		b.want(0, w)
		want = append(want, w...)
	}
	for i := range b.held {
		for j := range b.held[i].Count() {
			if p := b.held[i].Packet(j); !bytes.Equal(p, want[0]) {
				t.Fatalf("a packet that is held has changed: %s", difference(p, want[0]))
			}
			want = want[1:]
		}
	}
	for i := range b.held {
		b.Release(&b.held[i])
	}
	b.hold, b.held = false, nil
	before := block
	if block = sharer.Renew(block); &block[0] != &before[0] {
		t.Error("an unread block was moved to other memory")
	}
	a.end()
	fill(block, 1) // it stays valid after the end of the transport
	a.Free(mem)
}

// Sending, polling, releasing and replying allocate nothing.
func testNoAllocations(t *testing.T, f *fabric) {
	a, b := f.endpoint(t), f.endpoint(t)
	b.join(0)
	s := a.firstSender(0)
	c := a.Capabilities()
	count := min(8, c.MaxTrain, c.ReceiveCapacity)
	out, want := train(1, 256, equal(count, 256, 256)...)
	peers := b.retain()
	a.send(s, out)
	b.want(0, want)
	b.onRecv = nil
	peer := (*peers)[0]
	reply := []byte("a reply")
	if err := b.Reply(peer, reply); err != nil { // the first Reply may need Polls of b
		t.Fatal(err)
	}
	a.want(transport.Unicast, [][]byte{reply})
	ab, bb := transport.NewBatch(16), transport.NewBatch(16)
	// recv receives that many packets. It calls again, which sends more, if none arrive for long: a fabric may lose
	// packets when a process ends.
	recv := func(e *endpoint, batch *transport.Batch, packets int, again func()) {
		limit, sooner := time.Now().Add(testTimeout), time.Now().Add(testTimeout/20)
		for packets > 0 {
			now := time.Now()
			if now.After(limit) {
				t.Fatal("packets do not arrive")
			}
			if now.After(sooner) {
				sooner = now.Add(testTimeout / 20)
				again()
			}
			if err := e.Poll(batch); err != nil {
				t.Fatal(err)
			}
			for i := range batch.Trains {
				packets -= batch.Trains[i].Count()
				e.Release(&batch.Trains[i])
			}
			if packets > 0 {
				e.Wait(time.Millisecond)
			}
		}
	}
	nothing := func() {}
	answer := func() {
		if err := b.Reply(peer, reply); err != nil {
			t.Fatal(err)
		}
	}
	var rest transport.Outbound
	round := func() {
		for sent := 0; sent < out.Count; {
			rest = transport.Outbound{Data: out.Data[sent*out.Stride:], Stride: out.Stride, Count: out.Count - sent,
				Lens: out.Lens[sent:]}
			n, _ := s.Send(&rest)
			sent += n
		}
		recv(b, bb, out.Count, nothing)
		answer()
		recv(a, ab, 1, answer)
		b.Wait(0)
		b.Wait(time.Microsecond)
		b.Wake()
		b.Wait(-1)
	}
	for range 10 {
		round()
	}
	if n := testing.AllocsPerRun(200, round); n != 0 {
		t.Errorf("%v allocations for each round of sending, polling, releasing, replying and waiting, want none", n)
	}
}
