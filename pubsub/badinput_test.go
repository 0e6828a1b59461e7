package pubsub

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// Bad packets in the group of a live stream change nothing but counters. docs/protocol §13.1.
func TestBadInputOnTheGroup(t *testing.T) {
	ctx := testContext(t)
	raw := udpURL(t)
	pubBus, subBus := openBus(t, Config{Name: "live"}, raw), openBus(t, Config{}, raw)
	sub := subscribe(t, subBus, "x")
	pub := publisher(t, pubBus, "x")
	wait(t, ctx, pub, 1)
	group := pubBus.Stats().Publications[0].Address
	conn := dialGroup(t, group) // the attacker is on loopback, too
	send := func(b []byte) {
		if _, err := conn.Write(b); err != nil {
			t.Fatal(err)
		}
	}

	tag := wire.GroupTag(group)
	rng := rand.New(rand.NewPCG(1, 2))
	header := wire.Header{GroupTag: tag, Publisher: pubBus.ID(), Epoch: pubBus.loop.Instance().Epoch}
	data := func(h wire.Header, seq uint64) []byte {
		b := make([]byte, wire.DataHeaderLen+wire.RunHeaderLen+2+5)
		wire.PutDataHeader(b, h, 1472)
		wire.SetSeq(b, seq)
		wire.PutRunHeader(b[wire.DataHeaderLen:], wire.RunMessages, 7, 1, 0)
		copy(b[wire.DataHeaderLen+wire.RunHeaderLen:], "\x05\x00wrong")
		return b
	}
	for i := range 200 {
		publish(t, ctx, pub, fmt.Sprint(i))
		garbage := make([]byte, rng.IntN(1400))
		for j := range garbage {
			garbage[j] = byte(rng.Uint32())
		}
		send(garbage)                  // garbage
		send([]byte{'F', 'f', 1})      // truncated
		send(data(header, 0)[:60])     // truncated data of the live stream
		foreign := header              //
		foreign.GroupTag++             //
		send(data(foreign, uint64(i))) // another group's
		version := data(header, uint64(i))
		version[2] = 9
		send(version)         // another version
		send(data(header, 0)) // a replay: packet 0 was delivered long ago
		big := append(data(header, uint64(i)), make([]byte, 1500)...)
		send(big) // longer than the stream's packets
		want(t, ctx, sub, fmt.Sprint(i))
	}
	publish(t, ctx, pub, "end")
	want(t, ctx, sub, "end")
	// Counters may lag behind the last packets: poll them.
	for {
		g := subBus.Stats().Groups[0]
		if g.Malformed >= 200 && g.Foreign >= 200 && g.Version >= 200 && g.Duplicates >= 199 {
			if g.Lost != 0 || g.Streams != 1 {
				t.Errorf("group after bad input: %+v, want 1 stream and nothing lost", g)
			}
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("not everything was counted: %+v", g)
		}
	}
}

// Messages whose numbers go back are dropped, and counted for each subscription that drops them. A packet in which a
// message exceeds its run is refused as a whole.
func TestDroppedMessagesAreCounted(t *testing.T) {
	ctx := testContext(t)
	bus := openBus(t, Config{}, udpURL(t))
	sub := subscribe(t, bus, "x")
	handled := make(chan string, 16)
	if _, err := bus.Handle("x", func(m Message, err error) {
		if err == nil {
			handled <- string(m.Data)
		}
	}); err != nil {
		t.Fatal(err)
	}
	group := bus.Stats().Groups[0].Address
	conn := dialGroup(t, group)
	packet := func(seq, number uint64, length int, text string) []byte {
		b := make([]byte, wire.DataHeaderLen+wire.RunHeaderLen+2, 1472)
		wire.PutDataHeader(b, wire.Header{GroupTag: wire.GroupTag(group), Publisher: 13, Epoch: 1}, 1472)
		wire.SetSeq(b, seq)
		wire.PutRunHeader(b[wire.DataHeaderLen:], wire.RunMessages, 2+len(text), wire.TopicID("x"), number)
		b[wire.DataHeaderLen+wire.RunHeaderLen] = byte(length)
		return append(b, text...)
	}
	const dropped = 10
	packets := [][]byte{packet(0, 0, 4, "zero"), packet(1, 1, 255, "longer than its run")} // the second is refused
	for i := range uint64(dropped) {
		packets = append(packets, packet(1+i, 0, 5, "again"))
	}
	for _, p := range append(packets, packet(1+dropped, 1, 3, "one")) {
		if _, err := conn.Write(p); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{"zero", "one"} {
		want(t, ctx, sub, text)
		select {
		case got := <-handled:
			if got != text {
				t.Errorf("the handler got %q, want %q", got, text)
			}
		case <-ctx.Done():
			t.Fatal("the handler got nothing")
		}
	}
	if g := bus.Stats().Groups[0]; g.DroppedRuns != 2*dropped || g.Malformed != 1 || g.Lost != 0 {
		t.Errorf("%d runs sent, group %+v, want twice as many dropped by two subscriptions, and 1 malformed", dropped, g)
	}
}
