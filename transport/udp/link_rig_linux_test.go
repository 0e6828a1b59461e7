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

// linkRig is a pair of transports on an interface that changes: tx sends to group 0, of which rx is a member.
type linkRig struct {
	t      *testing.T
	addr   string // of the interface, with its prefix length; empty: only a link-local address
	tx, rx *udp.Transport
	s      transport.Sender
}

const linkName = "back"

// create makes the interface and its other end. index is the interface's index; 0: any.
func (f *linkRig) create(index int) {
	f.t.Helper()
	testenv.AddVeth(f.t, linkName, linkName+"-end", index)
	testenv.LinkUp(f.t, linkName+"-end")
	f.up(f.addr)
	testenv.AwaitAddrs(f.t, linkName)
}

// up takes the interface up. It has no IPv6 addresses while it is down.
func (f *linkRig) up(addr string) {
	f.t.Helper()
	testenv.LinkUp(f.t, linkName)
	if addr != "" {
		testenv.AddAddr(f.t, linkName, addr)
	}
}

// again takes the interface up with its previous address.
func (f *linkRig) again() {
	f.t.Helper()
	if strings.Contains(f.addr, ".") {
		f.up("") // IPv4 keeps its address
	} else {
		f.up(f.addr)
	}
}

// await polls until exactly these events have arrived in this order, and returns their errors. An event is, for
// example, "receiver 0 lost".
func (f *linkRig) await(tr *udp.Transport, want ...string) (errs []error) {
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

// poll polls once, and returns the number of Lost events minus the number of Joined events.
func (f *linkRig) poll(tr *udp.Transport) (lost int) {
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

// checkTraffic checks that rx receives a packet of tx, and tx its answer.
func (f *linkRig) checkTraffic(when string) {
	f.t.Helper()
	hello, answer := []byte("hello "+when), []byte("answer "+when)
	peer := f.awaitPacket(f.rx, 0, hello, func() error {
		_, err := f.s.Send(&transport.Outbound{Data: hello, Stride: len(hello), Count: 1, Lens: []uint16{uint16(len(hello))}})
		return err
	})
	defer f.rx.Forget(peer)
	if from := f.rx.PeerAddr(peer); from != f.tx.LocalAddr() {
		f.t.Errorf("%s: the packet's source is %v, want %v", when, from, f.tx.LocalAddr())
	}
	f.tx.Forget(f.awaitPacket(f.tx, transport.Unicast, answer, func() error { return f.rx.Reply(peer, answer) }))
}

// awaitPacket waits for a packet in a group, and retains its sender. No events may arrive meanwhile. The packet is sent
// again from time to time, because an IPv6 address can be bound shortly before the kernel has its route.
func (f *linkRig) awaitPacket(tr *udp.Transport, group int, packet []byte, send func() error) (peer transport.Peer) {
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
			f.t.Fatalf("awaiting %q: events %+v, want none", packet, b.Events)
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

// expectLost checks the events, and the calls that still work, while the interface is down.
func (f *linkRig) expectLost(errno error) {
	f.t.Helper()
	for _, errs := range [][]error{f.await(f.tx, "sender 0 lost"), f.await(f.rx, "receiver 0 lost")} {
		if !errors.Is(errs[0], errno) || !strings.Contains(errs[0].Error(), linkName) {
			f.t.Errorf("reported as lost with %v, want an error that matches %v and names the interface", errs[0], errno)
		}
	}
	if n, err := f.s.Send(&transport.Outbound{Data: []byte("x"), Stride: 1, Count: 1, Lens: []uint16{1}}); n != 0 || !errors.Is(err, transport.ErrNotReady) {
		f.t.Errorf("Send: %d packets, error %v, want 0 and %v", n, err, transport.ErrNotReady)
	}
	if st := f.tx.Stats(); st.SendErrors != 0 || st.SendBusy != 0 {
		f.t.Errorf("statistics of the sender %+v, want no failed send", st)
	}
}

// joinWhileDown joins groups while the interface is down.
func (f *linkRig) joinWhileDown() {
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

// expectRestored checks that everything works again.
func (f *linkRig) expectRestored(when string) {
	f.t.Helper()
	f.await(f.tx, "sender 0 joined", "sender 1 joined")
	f.await(f.rx, "receiver 0 joined", "receiver 1 joined")
	f.checkTraffic(when)
	if st := f.rx.Stats(); st.MembershipsLost != 1 || st.Joins != 3 || st.JoinsFailed != 0 {
		f.t.Errorf("%s: statistics of the receiver %+v, want 3 joins, 1 lost membership and none failed", when, st)
	}
}
