//go:build !fanfare_plainudp

package udp

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/transport"
)

// A publisher that reads replies continues while more are pending, up to a limit: other programs that send as fast as
// possible delay its subscribers only briefly.
func TestReadRepliesContinues(t *testing.T) {
	open := func() *Transport {
		x, err := Open(Config{Interface: "lo", Port: 7461})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			x.Close()
			for b := transport.NewBatch(1); x.Poll(b) == nil; {
			}
		})
		return x
	}
	publisher, subscriber := open(), open()
	s, err := publisher.NewSender(0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := subscriber.Join(0); err != nil {
		t.Fatal(err)
	}
	var to transport.Peer
	for b, end := transport.NewBatch(4), time.Now().Add(10*time.Second); to == 0; {
		if time.Now().After(end) {
			t.Fatal("received nothing")
		}
		if _, err := s.Send(&transport.Outbound{Data: []byte("hello"), Stride: 5, Count: 1, Lens: []uint16{5}}); err != nil {
			t.Fatal(err)
		}
		if err := subscriber.Wait(10 * time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if err := subscriber.Poll(b); err != nil {
			t.Fatal(err)
		}
		for i := range b.Trains {
			if to == 0 {
				if to, err = subscriber.Retain(b.Trains[i].From); err != nil {
					t.Fatal(err)
				}
			}
			subscriber.Release(&b.Trains[i])
		}
	}
	const maximum, more = replyBuffers * replyRounds, 10
	for i := range maximum + more {
		if err := subscriber.Reply(to, []byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
	}
	var got []byte
	read := func() int {
		before := len(got)
		s.(transport.ReplyReader).ReadReplies(func(p []byte) { got = append(got, p[0]) })
		return len(got) - before
	}
	if n, rest := read(), read(); n != maximum || rest != more {
		t.Errorf("%d messages at once, and then %d, want %d and %d", n, rest, maximum, more)
	}
	for i, x := range got {
		if int(x) != i {
			t.Fatalf("message %d has number %d, want equal ones", i, x)
		}
	}
}
