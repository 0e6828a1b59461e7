package pubsub

import (
	"errors"
	"net"
	"sync"
	"testing"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Two names with one id: docs/vectors/hashes.json.
const name, otherName = "8yn0iYCKYHlIj4-BwPqk", "GReLUrM4wMqfg9yzV3KQ"

// rawPublisher is a publisher, as if in another process, whose packets the test makes: it may give its topic another
// name.
type rawPublisher struct {
	t      *testing.T
	conn   net.Conn
	id     uint64 // of its topic
	header wire.Header
	seq    uint64 // of the next packet
	number uint64 // of the next message
}

func newRawPublisher(t *testing.T, group string) *rawPublisher {
	return newRawPublisherOf(t, group, "x")
}

func newRawPublisherOf(t *testing.T, group, topic string) *rawPublisher {
	return &rawPublisher{t: t, id: wire.TopicID(topic), conn: dialGroup(t, group), header: wire.Header{GroupTag: wire.GroupTag(group), Publisher: 0x7717, Epoch: 1}}
}

func (w *rawPublisher) send(b []byte) {
	wire.SetChecksum(b)
	if _, err := w.conn.Write(b); err != nil {
		w.t.Fatal(err)
	}
}

func (w *rawPublisher) publish(text string) {
	b := make([]byte, wire.DataHeaderLen+wire.RunHeaderLen, 1472)
	b = append(b, byte(len(text)), 0)
	b = append(b, text...)
	wire.PutDataHeader(b, w.header, 1472)
	wire.SetSeq(b, w.seq)
	wire.PutRunHeader(b[wire.DataHeaderLen:], wire.RunMessages, 2+len(text), w.id, w.number)
	w.seq++
	w.number++
	w.send(b)
}

// lose skips n packets of one message each.
func (w *rawPublisher) lose(n uint64) {
	w.seq += n
	w.number += n
}

// name sends a packet with a name of the topic.
func (w *rawPublisher) name(name string) {
	b := make([]byte, wire.DataHeaderLen+wire.RunHeaderLen+len(name))
	wire.PutDataHeader(b, w.header, 1472)
	wire.SetSeq(b, w.seq)
	wire.PutTopicRun(b[wire.DataHeaderLen:], w.id, name)
	wire.SetRunNumber(b[wire.DataHeaderLen:], w.number)
	w.seq++
	w.send(b)
}

// A topic of another process with the id of a subscribed one is reported once in the stream, by a typed error; that
// publisher's messages with the id are no longer delivered, those of other publishers are. docs/protocol §3.6.
func TestTopicCollisionBetweenProcesses(t *testing.T) {
	ctx := testContext(t)
	raw := udpURL(t)
	var mu sync.Mutex
	var reported, handled, late []error
	pubBus := openBus(t, Config{}, raw)
	subBus := openBus(t, Config{OnEvent: func(e events.Event) {
		if e.Kind == events.TopicCollision {
			mu.Lock()
			reported = append(reported, e.Err)
			mu.Unlock()
		}
	}}, raw)
	sub := subscribe(t, subBus, name)
	if _, err := subBus.Handle(name, func(_ Message, err error) {
		if err != nil {
			mu.Lock()
			handled = append(handled, err)
			mu.Unlock()
		}
	}); err != nil {
		t.Fatal(err)
	}
	pub := publisher(t, pubBus, name)
	wait(t, ctx, pub, 1)
	publish(t, ctx, pub, "right")
	want(t, ctx, sub, "right")

	w := newRawPublisherOf(t, pubBus.Stats().Publications[0].Address, name)
	w.publish("before it is known")
	if m := want(t, ctx, sub, "before it is known"); m.Publisher() != 0x7717 {
		t.Errorf("message of publisher %v, want %v", m.Publisher(), PublisherID(0x7717))
	}
	w.name("a.lie") // this name has another id, and changes nothing
	w.publish("as before")
	want(t, ctx, sub, "as before")
	w.name(otherName)
	_, err := sub.Next(ctx)
	var collision *events.TopicCollisionError
	if !errors.As(err, &collision) || !errors.Is(err, events.ErrTopicCollision) {
		t.Fatalf("got %v, want a *TopicCollisionError", err)
	}
	if want := (events.TopicCollisionError{ID: events.ID(wire.TopicID(name)), Known: name, Other: otherName, Publisher: 0x7717}); *collision != want {
		t.Errorf("got %+v, want %+v", *collision, want)
	}
	w.publish("none of ours")
	w.name(otherName)
	w.publish("nor this")
	for subBus.Stats().Groups[0].Packets < 8 { // 1 of pub, 7 of w
		if ctx.Err() != nil {
			t.Fatalf("packets are missing: %+v", subBus.Stats().Groups[0])
		}
	}
	publish(t, ctx, pub, "goes on")
	want(t, ctx, sub, "goes on")

	// Later subscriptions also get the error and none of the messages; the first one gets no second error.
	later := subscribe(t, subBus, name)
	if _, err := later.Next(ctx); !errors.Is(err, events.ErrTopicCollision) {
		t.Errorf("a later subscription got %v, want a collision first", err)
	}
	if _, err := subBus.Handle(name, func(m Message, err error) {
		mu.Lock()
		late = append(late, err)
		if m.Publisher() == 0x7717 {
			t.Errorf("a later handler got %q of the other topic", m.Data)
		}
		mu.Unlock()
	}); err != nil {
		t.Fatal(err)
	}
	w.publish("none of ours")
	w.name(otherName)
	for subBus.Stats().Groups[0].Packets < 11 {
		if ctx.Err() != nil {
			t.Fatalf("packets are missing: %+v", subBus.Stats().Groups[0])
		}
	}
	publish(t, ctx, pub, "to all")
	want(t, ctx, sub, "to all")
	want(t, ctx, later, "to all")
	mu.Lock()
	defer mu.Unlock()
	if len(reported) != 1 || !errors.Is(reported[0], events.ErrTopicCollision) {
		t.Errorf("events %v, want one collision", reported)
	}
	if len(late) < 1 || !errors.Is(late[0], events.ErrTopicCollision) {
		t.Errorf("a later handler got %v, want a collision first", late)
	}
	if len(handled) != 1 || !errors.Is(handled[0], events.ErrTopicCollision) {
		t.Errorf("handler got %v, want one collision", handled)
	}
}
