package rocenet_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/rdma/roce"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/rocenet"
)

// An interface that goes down and up, and an address that is removed and added again, are reported as by udp://.
// Meanwhile nothing is sent, and afterwards everything works.
func TestLinkChanges(t *testing.T) {
	if !testenv.Namespace(t) {
		return
	}
	const name, addr = "back", "10.88.0.1/24"
	testenv.AddVeth(t, name, name+"-end", 0)
	testenv.LinkUp(t, name+"-end")
	testenv.LinkUp(t, name)
	testenv.AddAddr(t, name, addr)
	testenv.AwaitAddrs(t, name)
	for _, c := range []struct {
		what     string
		errno    error
		away, up func()
	}{
		{"down", syscall.ENETDOWN, func() { testenv.LinkDown(t, name) }, func() { testenv.LinkUp(t, name) }},
		{"without its address", syscall.EADDRNOTAVAIL, func() { testenv.DelAddr(t, name, addr) }, func() { testenv.AddAddr(t, name, addr) }},
	} {
		t.Run(c.what, func(t *testing.T) {
			cfg := rocenet.Config{Interface: name, Check: roce.CheckUDP, Groups: 4}
			tx, rx := open(t, cfg), open(t, cfg)
			defer end(tx)
			defer end(rx)
			s, err := tx.NewSender(0)
			if err != nil {
				t.Fatal(err)
			}
			if err := rx.Join(0); err != nil {
				t.Fatal(err)
			}
			await(t, tx, transport.Joined)
			await(t, rx, transport.Joined)
			checkTraffic(t, s, tx, rx)
			for range 2 {
				c.away()
				for _, tr := range []*rocenet.Transport{tx, rx} {
					if err := await(t, tr, transport.Lost); !errors.Is(err, c.errno) {
						t.Errorf("reported as lost with %v, want %v", err, c.errno)
					}
				}
				if n, err := s.Send(packet); n != 0 || !errors.Is(err, transport.ErrNotReady) {
					t.Errorf("Send: %d packets, error %v, want 0 and %v", n, err, transport.ErrNotReady)
				}
				c.up()
				await(t, tx, transport.Joined)
				await(t, rx, transport.Joined)
				checkTraffic(t, s, tx, rx)
			}
		})
	}
}

var packet = &transport.Outbound{Data: []byte("hello"), Stride: 5, Count: 1, Lens: []uint16{5}}

// await polls until an event arrives, checks its kind, and returns its error.
func await(t *testing.T, tr *rocenet.Transport, want transport.Membership) error {
	t.Helper()
	b := transport.NewBatch(16)
	for range 4000 {
		if err := tr.Poll(b); err != nil {
			t.Fatal(err)
		}
		for i := range b.Trains {
			tr.Release(&b.Trains[i])
		}
		if len(b.Events) > 0 {
			if e := b.Events[0]; len(b.Events) > 1 || e.Group != 0 || e.State != want {
				t.Fatalf("events %+v, want %v", b.Events, want)
			}
			return b.Events[0].Err
		}
		tr.Wait(5e6)
	}
	t.Fatalf("group 0 is not %v", want)
	return nil
}

// checkTraffic checks that a packet arrives.
func checkTraffic(t *testing.T, s transport.Sender, tx, rx *rocenet.Transport) {
	t.Helper()
	b := transport.NewBatch(16)
	for tries := range 4000 {
		if tries%100 == 0 {
			if _, err := s.Send(packet); err != nil {
				t.Fatal(err)
			}
		}
		for _, tr := range []*rocenet.Transport{tx, rx} {
			if err := tr.Poll(b); err != nil {
				t.Fatal(err)
			}
			if len(b.Events) > 0 {
				t.Fatalf("events %+v, want none", b.Events)
			}
			got := len(b.Trains)
			for i := range b.Trains {
				tr.Release(&b.Trains[i])
			}
			if tr == rx && got > 0 {
				return
			}
		}
		rx.Wait(5e6)
	}
	t.Fatal("nothing arrives")
}
