package transporttest

import (
	"testing"

	"github.com/fanfaremq/fanfare/transport"
)

// What is muted does not come: of that peer, in that group, and with that head, also in trains and
// after the group was left and joined again. All else comes, and that again when it is not muted any
// more. A fabric that mutes nothing is asked for nothing.
func testMute(t *testing.T, f *fabric) {
	a, other, b := f.endpoint(t), f.endpoint(t), f.endpoint(t)
	m, ok := b.Transport.(transport.Muter)
	if !ok {
		return
	}
	b.join(0, 1)
	peers := b.retain()
	s, elsewhere, others := a.firstSender(0), a.firstSender(1), other.firstSender(0)
	const size = 64
	packet := func(first byte) []byte {
		p := make([]byte, size)
		fill(p, 5)
		p[0], p[5] = first, byte(len(*peers)) // where the mask has nothing
		return p
	}
	var head transport.Head
	for i := range head.Mask {
		if i == 0 || i > 7 {
			head.Mask[i] = 0xff
		}
	}
	copy(head.Value[:], packet('d'))
	three := func(first byte) (*transport.Outbound, [][]byte) {
		data := append(packet(first), append(packet(first), packet(first)...)...)
		return &transport.Outbound{Data: data, Stride: size, Count: 3, Lens: []uint16{size, size, size}}, [][]byte{data[:size], data[size : 2*size], data[2*size:]}
	}
	check := func(what string, muted bool) {
		t.Helper()
		for _, c := range []struct {
			from  *endpoint
			s     transport.Sender
			group int
			first byte
			out   bool
		}{
			{a, s, 0, 'd', muted}, {a, s, 0, 'h', false}, {a, elsewhere, 1, 'd', false}, {other, others, 0, 'd', false},
		} {
			train, want := three(c.first)
			c.from.send(c.s, train)
			f.settle(t, c.from, c.s, c.group, b)
			if c.out {
				want = nil
			}
			if len(b.got) != len(want) {
				t.Fatalf("%s: %d packets with %q come in group %d, want %d", what, len(b.got), c.first, c.group, len(want))
			}
			b.want(c.group, want)
		}
	}
	a.send(s, one(packet('d')))
	b.want(0, [][]byte{packet('d')})
	peer := (*peers)[0]
	b.onRecv = nil
	if !m.Mute(0, peer, head) {
		return
	}
	uncounted(t, b.Stats, func() {
		check("muted", true)
		b.leave(0)
		b.join(0)
		check("after the group was left", true)
	})
	m.Unmute(0, peer, head)
	check("not muted any more", false)
	m.Unmute(0, peer, head) // of nothing
	check("not muted", false)
	if m.Mute(0, 0, head) {
		t.Error("nobody is muted")
	}
	most(m, peer, head, func() { check("others are muted", false) })
	check("none is muted", false)
}

// uncounted checks that what is kept out while do runs is not counted as lost. What the host has dropped meanwhile for other
// programs may be taken for ours, but not each time.
func uncounted(t *testing.T, stats func() transport.Stats, do func()) {
	for tries := 1; ; tries++ {
		before := stats()
		do()
		now := stats()
		if now.ReceiveOverflow == before.ReceiveOverflow && now.ReceiveErrors == before.ReceiveErrors {
			return
		}
		if tries == 10 {
			t.Errorf("what was kept out is counted: %+v", now)
			return
		}
	}
}

// most mutes others than head, as many as it can, and calls do meanwhile.
func most(m transport.Muter, peer transport.Peer, head transport.Head, do func()) {
	var all []transport.Head
	for range 200 {
		if head.Value[31]++; !m.Mute(0, peer, head) {
			break
		}
		all = append(all, head)
	}
	do()
	for _, head := range all {
		m.Unmute(0, peer, head)
	}
}
