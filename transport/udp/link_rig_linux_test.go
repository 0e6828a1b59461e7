package udp_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/udp"
)

// comeAndGo is a pair of transports at an interface that changes: tx sends to
// group 0, of which rx is a member.
type comeAndGo struct {
	t      *testing.T
	addr   string // of the interface, with its prefix length; empty: only a link-local one
	tx, rx *udp.Transport
	s      transport.Sender
}

const coming = "back"

// create makes the interface, and its other end. index is the one that it gets;
// 0: any.
func (f *comeAndGo) create(index int) {
	f.t.Helper()
	testenv.AddVeth(f.t, coming, coming+"-end", index)
	testenv.LinkUp(f.t, coming+"-end")
	f.up(f.addr)
	testenv.AwaitAddrs(f.t, coming)
}

// up takes the interface up. It has no IPv6 addresses while it is down.
func (f *comeAndGo) up(addr string) {
	f.t.Helper()
	testenv.LinkUp(f.t, coming)
	if addr != "" {
		testenv.AddAddr(f.t, coming, addr)
	}
}

// again takes it up with the address that it had.
func (f *comeAndGo) again() {
	f.t.Helper()
	if strings.Contains(f.addr, ".") {
		f.up("") // which IPv4 keeps
	} else {
		f.up(f.addr)
	}
}

// await polls until the events have come in that order, and no others. An event
// is "receiver 0 lost"; it returns their errors.
func (f *comeAndGo) await(tr *udp.Transport, want ...string) (errs []error) {
	f.t.Helper()
	var got []string
	b := transport.NewBatch(16)
	for tries := 0; tries < 2000 && len(got) < len(want); tries++ {
		if err := tr.Poll(b); err != nil {
			f.t.Fatal(err)
		}
		for i := range b.Trains {
			tr.Release(&b.Trains[i])
		}
		for _, e := range b.Events {
			got, errs = append(got, fmt.Sprintf("%v %d %v", e.Role, e.Group, e.State)), append(errs, e.Err)
		}
		if len(b.Events) == 0 {
			tr.Wait(5e6)
		}
	}
	if !slices.Equal(got, want) {
		f.t.Fatalf("events %q %v, want %q", got, errs, want)
	}
	return errs
}

// poll polls once, and returns the number of events that report a loss, minus those that report a
// return.
func (f *comeAndGo) poll(tr *udp.Transport) (lost int) {
	f.t.Helper()
	b := transport.NewBatch(16)
	if err := tr.Poll(b); err != nil {
		f.t.Fatal(err)
	}
	for i := range b.Trains {
		tr.Release(&b.Trains[i])
	}
	for _, e := range b.Events {
		switch e.State {
		case transport.Lost:
			lost++
		case transport.Joined:
			lost--
		}
	}
	if len(b.Events) == 0 {
		tr.Wait(1e6)
	}
	return lost
}

// flows checks that a packet goes from tx to rx, and an answer back.
func (f *comeAndGo) flows(when string) {
	f.t.Helper()
	hello, answer := []byte("hello "+when), []byte("answer "+when)
	peer := f.hear(f.rx, 0, hello, func() error {
		_, err := f.s.Send(&transport.Outbound{Data: hello, Stride: len(hello), Count: 1, Lens: []uint16{uint16(len(hello))}})
		return err
	})
	defer f.rx.Forget(peer)
	if from := f.rx.PeerAddr(peer); from != f.tx.LocalAddr() {
		f.t.Errorf("%s: a packet comes from %v, want %v", when, from, f.tx.LocalAddr())
	}
	f.tx.Forget(f.hear(f.tx, transport.Unicast, answer, func() error { return f.rx.Reply(peer, answer) }))
}

// hear awaits a packet in a group, and retains its sender. No events may arrive meanwhile. The packet
// is repeated now and then: an IPv6 address can be bound a moment before the kernel has its route.
func (f *comeAndGo) hear(tr *udp.Transport, group int, packet []byte, send func() error) (peer transport.Peer) {
	f.t.Helper()
	b := transport.NewBatch(16)
	for tries := 0; tries < 2000 && peer == 0; tries++ {
		if tries%50 == 0 {
			if err := send(); err != nil {
				f.t.Fatalf("sending %q: %v", packet, err)
			}
		}
		if err := tr.Poll(b); err != nil {
			f.t.Fatal(err)
		}
		if len(b.Events) > 0 {
			f.t.Fatalf("awaiting %q: events %+v", packet, b.Events)
		}
		for i := range b.Trains {
			if got := &b.Trains[i]; peer == 0 && bytes.Equal(got.Packet(0), packet) && got.Group == group {
				p, err := tr.Retain(got.From)
				if err != nil {
					f.t.Fatal(err)
				}
				peer = p
			}
			tr.Release(&b.Trains[i])
		}
		if len(b.Trains) == 0 {
			tr.Wait(5e6)
		}
	}
	if peer == 0 {
		f.t.Fatalf("%q does not arrive", packet)
	}
	return peer
}

// away checks the events, and what still works, while the interface is away.
func (f *comeAndGo) away(errno error) {
	f.t.Helper()
	for _, errs := range [][]error{f.await(f.tx, "sender 0 lost"), f.await(f.rx, "receiver 0 lost")} {
		if !errors.Is(errs[0], errno) || !strings.Contains(errs[0].Error(), coming) {
			f.t.Errorf("lost because of %v, want one that matches %v and names the interface", errs[0], errno)
		}
	}
	if n, err := f.s.Send(&transport.Outbound{Data: []byte("x"), Stride: 1, Count: 1, Lens: []uint16{1}}); n != 0 || !errors.Is(err, transport.ErrNotReady) {
		f.t.Errorf("Send = %d, %v", n, err)
	}
	if st := f.tx.Stats(); st.SendErrors != 0 || st.SendBusy != 0 {
		f.t.Errorf("counters of the sender %+v", st)
	}
}

// newcomers join groups while the interface is away.
func (f *comeAndGo) newcomers() {
	f.t.Helper()
	for _, err := range []error{f.rx.Join(1), f.rx.Join(2), f.rx.Leave(2)} {
		if err != nil {
			f.t.Fatal(err)
		}
	}
	if _, err := f.tx.NewSender(1); err != nil {
		f.t.Fatal(err)
	}
	f.await(f.rx, "receiver 2 left")
}

// back checks that everything works again.
func (f *comeAndGo) back(when string) {
	f.t.Helper()
	f.await(f.tx, "sender 0 joined", "sender 1 joined")
	f.await(f.rx, "receiver 0 joined", "receiver 1 joined")
	f.flows(when)
	if st := f.rx.Stats(); st.MembershipsLost != 1 || st.Joins != 3 || st.JoinsFailed != 0 {
		f.t.Errorf("%s: counters of the receiver %+v", when, st)
	}
}
