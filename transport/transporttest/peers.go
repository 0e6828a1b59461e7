package transporttest

import (
	"bytes"
	"errors"
	"testing"

	"github.com/fanfaremq/fanfare/transport"
)

// retain makes e retain the senders of all trains that it receives, and append them to the returned slice.
func (e *endpoint) retain() *[]transport.Peer {
	peers := new([]transport.Peer)
	e.onRecv = func(tr *transport.Train) {
		p, err := e.Retain(tr.From)
		if err != nil {
			e.t.Fatalf("Retain: %v", err)
		}
		*peers = append(*peers, p)
	}
	return peers
}

// A reply is delivered as unicast to the transport that it is for, and to no other.
func testReply(t *testing.T, f *fabric) {
	a, other, b := f.endpoint(t), f.endpoint(t), f.endpoint(t)
	b.join(0)
	other.join(0)
	peers := b.retain()
	s := a.firstSender(0)
	a.send(s, one([]byte("hello, all")))
	b.want(0, [][]byte{[]byte("hello, all")})
	other.want(0, [][]byte{[]byte("hello, all")})
	p := (*peers)[0]
	back := a.retain()
	b.onRecv = nil
	c := b.Capabilities()
	for _, n := range []int{1, 2, 100, c.PacketSize, c.MaxPacket} {
		packet := make([]byte, n)
		fill(packet, uint64(n))
		f.until(t, "the reply is sent", func() bool {
			err := b.Reply(p, packet)
			if err != nil && !errors.Is(err, transport.ErrBusy) {
				t.Fatalf("Reply of %d bytes: error %v, want none or %v", n, err, transport.ErrBusy)
			}
			return err == nil
		})
		want := append([]byte(nil), packet...)
		fill(packet, 99) // Reply has copied or sent it
		a.want(transport.Unicast, [][]byte{want})
	}
	// The receiver of the reply can reply, too.
	a.onRecv = nil
	if err := a.Reply((*back)[0], []byte("and back")); err != nil {
		t.Fatal(err)
	}
	b.want(transport.Unicast, [][]byte{[]byte("and back")})
	f.settle(t, a, s, 0, b, other)
	other.want(0, nil)
	a.want(0, nil)

	if c.MaxPacket < 1<<16 {
		if err := b.Reply(p, make([]byte, c.MaxPacket+1)); !errors.Is(err, transport.ErrPacketTooLarge) {
			t.Errorf("Reply of more than MaxPacket: error %v, want %v", err, transport.ErrPacketTooLarge)
		}
	}
	if err := b.Reply(p, nil); err == nil {
		t.Error("Reply of no bytes: no error")
	}
}

// A Sender that reads replies gets each once, complete, even if the loop polls at the same time, and none when it or
// its transport is closed. Fabrics with Senders that do not read pass.
func testReadReplies(t *testing.T, f *fabric) {
	a, b := f.endpoint(t), f.endpoint(t)
	b.join(0)
	peers := b.retain()
	s := a.firstSender(0)
	a.send(s, one([]byte("hello, all")))
	b.want(0, [][]byte{[]byte("hello, all")})
	reader, ok := s.(transport.ReplyReader)
	if !ok {
		return
	}
	const n = 50
	seen := make(map[byte]int)
	record := func(p []byte) {
		want := make([]byte, len(p))
		if fill(want, uint64(p[0])); len(p) > 8 && p[0] < n {
			want[0] = p[0]
			if !bytes.Equal(p, want) {
				t.Errorf("reply %d differs: %s", p[0], difference(p, want))
			}
			seen[p[0]]++
		}
	}
	a.onRecv = func(tr *transport.Train) {
		for i := range tr.Count() {
			record(tr.Packet(i))
		}
	}
	for i := range n {
		packet := make([]byte, 100+i)
		fill(packet, uint64(i))
		packet[0] = byte(i)
		f.until(t, "the reply is sent", func() bool { return b.Reply((*peers)[0], packet) == nil })
		if i%10 == 9 {
			f.until(t, "the replies are read", func() bool {
				if i%20 == 19 {
					a.poll()
				}
				reader.ReadReplies(record)
				return len(seen) > i
			})
		}
	}
	for i, times := range seen {
		if times != 1 {
			t.Errorf("reply %d was delivered %d times, want once", i, times)
		}
	}
	if allocs := testing.AllocsPerRun(100, func() { reader.ReadReplies(record) }); allocs > 0 {
		t.Errorf("ReadReplies makes %v allocations, want none", allocs)
	}
	s.Close()
	reader.ReadReplies(record)
	a.end()
	reader.ReadReplies(record)
}

// A sender has the same address in trains and in replies, however they are read, and another address than other
// senders.
func testAddresses(t *testing.T, f *fabric) {
	a, b, c := f.endpoint(t), f.endpoint(t), f.endpoint(t)
	if got := a.SourceAddress(1 << 40); got != "" && a.Capabilities().Name != "mem" { // in mem, sources outlive trains
		t.Errorf("address %q of a source that is not lent", got)
	}
	a.join(0)
	b.join(0)
	c.join(0)
	received, seen := make(map[byte]bool), make(map[byte]string) // by the first byte of a packet
	a.onRecv = func(tr *transport.Train) {
		for i := range tr.Count() {
			received[tr.Packet(i)[0]], seen[tr.Packet(i)[0]] = true, a.SourceAddress(tr.From)
		}
	}
	toB, toC := b.retain(), c.retain()
	s := a.firstSender(0)
	a.send(s, one([]byte("hello, all")))
	f.until(t, "both receive it", func() bool { return len(*toB) > 0 && len(*toC) > 0 })
	b.onRecv, c.onRecv = nil, nil
	b.send(b.firstSender(0), one([]byte("b")))
	c.send(c.firstSender(0), one([]byte("c")))
	f.until(t, "their packets arrive", func() bool { return received['b'] && received['c'] })
	reply := func(e *endpoint, to transport.Peer, packet string) {
		f.until(t, "the reply is sent", func() bool { return e.Reply(to, []byte(packet)) == nil })
	}
	if b.PeerAddress((*toB)[0]) == "" {
		t.Error("a peer has no address")
	}
	reply(b, (*toB)[0], "B")
	reply(c, (*toC)[0], "C")
	f.until(t, "the replies arrive", func() bool { return received['B'] && received['C'] })
	if reader, ok := s.(transport.ReplyReader); ok {
		record := func(p []byte) { received[p[0]], seen[p[0]] = true, reader.ReplyAddress() }
		reply(b, (*toB)[0], "1")
		reply(c, (*toC)[0], "2")
		f.until(t, "the replies are read", func() bool {
			if reader.ReadReplies(record); !received['1'] || !received['2'] {
				a.poll() // in case ReadReplies leaves them to the loop
			}
			return received['1'] && received['2']
		})
		if seen['1'] != seen['B'] || seen['2'] != seen['C'] {
			t.Errorf("a Sender reads replies of %q and %q, the loop of %q and %q", seen['1'], seen['2'], seen['B'], seen['C'])
		}
	}
	if _, spoiled := a.Transport.(interface{ Inner() transport.Transport }); spoiled && seen['b'] == "" {
		return // the fabric delayed them until their trains were released
	}
	if seen['B'] != seen['b'] || seen['C'] != seen['c'] || seen['B'] == seen['C'] {
		t.Errorf("replies come from %q and %q, trains from %q and %q", seen['B'], seen['C'], seen['b'], seen['c'])
	}
}

// A reply to a closed endpoint is lost, without any other effect.
func testReplyToClosed(t *testing.T, f *fabric) {
	a, b := f.endpoint(t), f.endpoint(t)
	b.join(0)
	peers := b.retain()
	a.send(a.firstSender(0), one([]byte("goodbye")))
	b.want(0, [][]byte{[]byte("goodbye")})
	a.end()
	for range 5 {
		if err := b.Reply((*peers)[0], []byte("are you there?")); err != nil && !errors.Is(err, transport.ErrBusy) {
			t.Fatalf("Reply: error %v, want none or %v", err, transport.ErrBusy)
		}
		f.drain()
	}
	b.want(0, nil)
}

func testRetainAndForget(t *testing.T, f *fabric) {
	a, b, c := f.endpoint(t), f.endpoint(t), f.endpoint(t)
	c.join(0)
	peers := c.retain()
	sa, sb := a.firstSender(0), b.firstSender(0)
	send := func(e *endpoint, s transport.Sender) transport.Peer {
		t.Helper()
		e.send(s, one([]byte("hello")))
		c.want(0, [][]byte{[]byte("hello")})
		return (*peers)[len(*peers)-1]
	}
	p1, p2, q := send(a, sa), send(a, sa), send(b, sb)
	if p1 == 0 || q == 0 {
		t.Fatal("Retain gave the zero peer")
	}
	if p1 != p2 {
		t.Errorf("the same source gave peers %d and %d, want the same", p1, p2)
	}
	if p1 == q {
		t.Errorf("two sources gave the same peer %d", q)
	}
	c.Forget(p1)
	if err := c.Reply(p1, []byte("one reference left")); err != nil {
		t.Fatalf("Reply to a peer retained twice and forgotten once: %v", err)
	}
	a.want(transport.Unicast, [][]byte{[]byte("one reference left")})
	c.Forget(p2)
	if err := c.Reply(p1, []byte("gone")); !errors.Is(err, transport.ErrNoPeer) {
		t.Errorf("Reply to a forgotten peer: error %v, want %v", err, transport.ErrNoPeer)
	}
	if err := c.Reply(0, []byte("no peer")); !errors.Is(err, transport.ErrNoPeer) {
		t.Errorf("Reply to the zero peer: error %v, want %v", err, transport.ErrNoPeer)
	}
	c.Forget(p1) // once more than Retain: changes nothing
	c.Forget(0)
	if err := c.Reply(q, []byte("still here")); err != nil {
		t.Fatalf("Reply to the other peer: %v", err)
	}
	b.want(transport.Unicast, [][]byte{[]byte("still here")})
	p3 := send(a, sa)
	if err := c.Reply(p3, []byte("back again")); err != nil {
		t.Fatalf("Reply to a peer retained anew: %v", err)
	}
	a.want(transport.Unicast, [][]byte{[]byte("back again")})
}

func testPeerLimit(t *testing.T, f *fabric) {
	c := f.endpointWith(t, Options{Peers: 2})
	c.join(0)
	var peers []transport.Peer
	var errs []error
	c.onRecv = func(tr *transport.Train) {
		p, err := c.Retain(tr.From)
		peers, errs = append(peers, p), append(errs, err)
	}
	for i := range 3 {
		e := f.endpoint(t)
		e.send(e.firstSender(0), one([]byte("hello")))
		c.want(0, [][]byte{[]byte("hello")})
		if i < 2 && errs[i] != nil {
			t.Fatalf("Retain %d of 2: %v", i+1, errs[i])
		}
	}
	if !errors.Is(errs[2], transport.ErrPeerLimit) || c.Stats().PeersRefused == 0 {
		t.Fatalf("third Retain of 2: error %v, counted %d times, want %v, counted", errs[2], c.Stats().PeersRefused, transport.ErrPeerLimit)
	}
	c.Forget(peers[0])
	e := f.all[3]
	s := e.sender(0)
	e.send(s, one([]byte("hello")))
	c.want(0, [][]byte{[]byte("hello")})
	if errs[3] != nil {
		t.Errorf("Retain after a Forget: %v", errs[3])
	}
}
