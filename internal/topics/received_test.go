package topics

import (
	"encoding/hex"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/compress"
	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/reliable"
)

// receivedCase is a case of docs/vectors/received.json.
type receivedCase struct {
	Name, Rule string
	Demanded   bool `json:"checksum_demanded"`
	Before     []hexPacket
	Packet     hexPacket
	Counts     map[string]uint64
	Delivers   []string
	Gaps       [][2]uint64
}

type hexPacket []byte

func (p *hexPacket) UnmarshalText(b []byte) (err error) {
	*p, err = hex.DecodeString(string(b))
	return err
}

func receivedCases(t *testing.T) (receiver, publisher []receivedCase) {
	t.Helper()
	var v struct{ Receiver, Publisher []receivedCase }
	testenv.Vectors(t, "received.json", &v)
	if len(v.Receiver) == 0 || len(v.Publisher) == 0 {
		t.Fatalf("%d and %d cases", len(v.Receiver), len(v.Publisher))
	}
	return v.Receiver, v.Publisher
}

// changes returns the counters that differ between two statistics, by lower-case name.
func changes(before, after any) map[string]uint64 {
	diff := make(map[string]uint64)
	a, b := reflect.ValueOf(before), reflect.ValueOf(after)
	for _, f := range reflect.VisibleFields(a.Type()) {
		if f.Anonymous {
			continue
		}
		if n := b.FieldByIndex(f.Index).Uint() - a.FieldByIndex(f.Index).Uint(); n != 0 {
			diff[strings.ToLower(f.Name)] = n
		}
	}
	return diff
}

// wantChanges returns the counters of a case, named as by changes.
func wantChanges(counts map[string]uint64) map[string]uint64 {
	want := make(map[string]uint64)
	for name, n := range counts {
		want[strings.ReplaceAll(name, "_", "")] = n
	}
	return want
}

// withoutBytes removes counters that do not count packets.
func withoutBytes(s, before stats.ReceiverPackets) stats.ReceiverPackets {
	s.Bytes, s.PackedBytes, s.UnpackedBytes = before.Bytes, before.PackedBytes, before.UnpackedBytes
	return s
}

// A receiver handles packets as docs/vectors/received.json states: deliveries, gaps and counters.
// docs/protocol §2.3, §2.8, §9.2, §9.3, §9.6, §9.7, §10.3, §10.5, §10.7, §11.6, §13.1, §13.3, §21.1.
func TestReceivedByReceiver(t *testing.T) {
	cases, _ := receivedCases(t)
	for _, c := range cases {
		s := &subscriber{}
		r, in := openReceiver(t, s.open, func(cfg *reliable.ReceiverConfig) {
			cfg.GroupTag, cfg.Own, cfg.Checksum, cfg.MaxStreams = 0x04030201, events.Instance{Publisher: 0x99, Epoch: 4}, c.Demanded, 8
			cfg.WindowBytes, cfg.MemoryBytes = 32*512, 512*512
		})
		q := NewReplies(42, r.Recipient, new(reliable.Running))
		r.SetControl(q)
		in.Unpack(compress.NewUnpacker(nil), func(*events.DictionaryError) {})
		in.Want("a.b")
		in.TopicsChanged(0)
		for _, p := range c.Before {
			r.Handle(1, 5, p)
		}
		s.Delivers, s.Gaps = nil, nil
		before, messages, replies := r.Stats(), in.Stats(), q.Stats()
		r.Handle(1, 5, c.Packet)
		diff := changes(before, withoutBytes(r.Stats(), before))
		maps.Copy(diff, changes(messages, in.Stats()))
		maps.Copy(diff, changes(replies, q.Stats()))
		if !slices.Equal(s.Delivers, c.Delivers) || !slices.Equal(s.Gaps, c.Gaps) {
			t.Errorf("%s (%s): delivers %q and gaps %v, want %q and %v", c.Name, c.Rule, s.Delivers, s.Gaps, c.Delivers, c.Gaps)
		}
		if want := wantChanges(c.Counts); !maps.Equal(diff, want) {
			t.Errorf("%s (%s): counted %v, want %v", c.Name, c.Rule, diff, want)
		}
	}
}

// A publisher handles packets as docs/vectors/received.json states. docs/protocol §13.1, §13.3.
func TestReceivedByPublisher(t *testing.T) {
	_, cases := receivedCases(t)
	for _, c := range cases {
		cfg := reliable.SenderConfig{Publisher: 0x77, Epoch: 3, GroupTag: 0x04030201, Checksum: c.Demanded, PacketSize: 512, MaxTrain: 2, MaxTrainBytes: 2 * 512,
			WindowPackets: 16, RepairShare: 0.5, Silence: time.Second}
		now := reliable.Instant(time.Hour)
		s, err := reliable.NewSender(cfg, make([]byte, cfg.BlockBytes()*cfg.LeastBlocks()), now)
		if err != nil {
			t.Fatal(err)
		}
		m := NewSender(s, nil, nil)
		topic, err := m.Topic("a.b")
		if err != nil {
			t.Fatal(err)
		}
		w := m.NewWriter()
		for range 10 {
			s.Grant(w.Packets)
			if !w.Append(topic, make([]byte, 100)) {
				t.Fatal("no room")
			}
			m.Assign(now, w, true)
		}
		sent(s, now)
		if s.Completed(1000); s.Lead() != 10 || !s.Grant(w.Packets) { // reuses the memory of packets 0 and 1
			t.Fatalf("%d packets were sent, want 10, the first two gone", s.Lead())
		}
		now = now.Add(time.Millisecond)
		for _, p := range c.Before {
			s.Handle(now, p, nil)
		}
		before, messages := s.Stats(), m.Stats()
		s.Handle(now, c.Packet, nil)
		diff := changes(before, s.Stats())
		maps.Copy(diff, changes(messages, m.Stats()))
		if want := wantChanges(c.Counts); !maps.Equal(diff, want) {
			t.Errorf("%s (%s): counted %v, want %v", c.Name, c.Rule, diff, want)
		}
	}
}
