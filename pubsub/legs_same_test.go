package pubsub

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/legs"
	"github.com/fanfaremq/fanfare/transport/mem"
)

// ownLeg is a transport with capabilities set by the test.
type ownLeg struct {
	transport.Transport
	unchecked bool // the transport does not protect packets
	peers     bool // it does not protect those of other endpoints
	busy      bool // Send returns ErrBusy
}

func (l ownLeg) Capabilities() transport.Capabilities {
	c := l.Transport.Capabilities()
	c.Checked, c.PeersUnchecked = !l.unchecked, l.peers
	return c
}

func (l ownLeg) NewSender(group int) (transport.Sender, error) {
	s, err := l.Transport.NewSender(group)
	if l.busy {
		s = busySender{s}
	}
	return s, err
}

type busySender struct{ transport.Sender }

func (busySender) Send(*transport.Outbound) (int, error) { return 0, transport.ErrBusy }

// legPair returns the two legs of a publisher, over networks in memory with packets of 2000 and 1024 bytes, the
// second without protection of all packets; and one more endpoint on each network, which receives the packets.
func legPair(t *testing.T, busy int) (pair, spies []transport.Transport) {
	t.Helper()
	for i, size := range []int{2000, 1024} {
		cfg := mem.Config{Name: fmt.Sprintf("%s_%d", t.Name(), i), PacketSize: size, QueueTrains: 1 << 16, Groups: 1}
		for _, list := range []*[]transport.Transport{&pair, &spies} {
			x, err := mem.Open(cfg)
			if err != nil {
				t.Fatal(err)
			}
			*list = append(*list, x)
		}
		t.Cleanup(func() { spies[i].Close() })
		if err := spies[i].Join(0); err != nil {
			t.Fatal(err)
		}
		pair[i] = ownLeg{Transport: pair[i], unchecked: i == 1 && busy < 0, peers: i == 1 && busy >= 0, busy: i == busy}
	}
	return pair, spies
}

// receivedData polls spy and returns the data packets by sequence. It checks that they have the first of tags, and
// that heartbeats list the tags. Hellos are sent with each tag (§23.9).
func receivedData(t *testing.T, spy transport.Transport, tags []uint32) map[uint64]string {
	t.Helper()
	data := make(map[uint64]string)
	take := func(b []byte) {
		h, err := wire.ParseHeader(b)
		if err != nil {
			t.Fatal(err)
		}
		if err := wire.Verify(b, true); err != nil {
			t.Fatalf("packet of type %v: Verify: %v", h.Type, err)
		}
		if len(b) > 1024 || h.GroupTag != tags[0] && h.Type != wire.TypeHello {
			t.Fatalf("a packet of type %v has %d bytes and tag %#x, want %#x", h.Type, len(b), h.GroupTag, tags[0])
		}
		switch h.Type {
		case wire.TypeHeartbeat:
			if hb, err := wire.ParseHeartbeat(b); err != nil || !slices.Equal(hb.Legs.List(), tags) {
				t.Fatalf("a heartbeat lists %#x, want %#x: %v", hb.Legs.List(), tags, err)
			}
		case wire.TypeData:
			d, err := wire.ParseData(b)
			if err != nil {
				t.Fatal(err)
			}
			data[d.Seq] = string(b)
		}
	}
	for batch := transport.NewBatch(64); ; {
		if err := spy.Poll(batch); err != nil {
			t.Fatal(err)
		}
		if len(batch.Trains) == 0 {
			return data
		}
		for i := range batch.Trains {
			for j := range batch.Trains[i].Count() {
				take(batch.Trains[i].Packet(j))
			}
			spy.Release(&batch.Trains[i])
		}
	}
}

// A publisher sends the same bytes on each leg, with the tag of the first leg, which its heartbeats list first. The
// leg with the smallest packets bounds all packets, and if one leg does not protect packets all have a checksum. A
// leg that accepts nothing does not hold up the other. docs/protocol §23.2.
func TestLegsCarryTheSame(t *testing.T) {
	for name, busy := range map[string]int{"both accept all": -1, "the first accepts nothing": 0, "the second accepts nothing": 1} {
		t.Run(name, func(t *testing.T) {
			ctx := testContext(t)
			all, spies := legPair(t, busy)
			x, err := legs.New(all, []string{"A", "B"})
			if err != nil {
				t.Fatal(err)
			}
			bus, err := Config{Logger: quiet}.OpenTransport(x)
			if err != nil {
				t.Fatal(err)
			}
			p := publisher(t, bus, "a.b")
			for i := range 300 {
				publish(t, ctx, p, fmt.Sprint(i, strings.Repeat("x", i)))
			}
			if err := p.Flush(ctx); err != nil {
				t.Fatal(err)
			}
			bus.Close() // returns when everything was sent
			tags := []uint32{wire.GroupTag(spies[0].GroupAddress(0)), wire.GroupTag(spies[1].GroupAddress(0))}
			var sent [2]map[uint64]string
			for i, spy := range spies {
				sent[i] = receivedData(t, spy, tags)
				if some := len(sent[i]) > 0; some != (i != busy) {
					t.Errorf("leg %d carried %d packets, want packets on all but the busy one", i, len(sent[i]))
				}
			}
			if busy < 0 && (len(sent[0]) < 50 || tags[0] == tags[1] || !maps.Equal(sent[0], sent[1])) {
				t.Errorf("%d packets on one leg, %d on the other, of tags %#x, and not the same, want the same on both, at least 50", len(sent[0]), len(sent[1]), tags)
			}
		})
	}
}
