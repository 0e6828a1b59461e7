package reliable

import (
	"encoding/hex"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/compress"
	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// receivedCase is a case of docs/vectors/received.json.
type receivedCase struct {
	Name, Rule string
	Demanded   bool `json:"checksum_demanded"`
	Before     []hexPacket
	Packet     hexPacket
	Counts     map[string]uint64
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

// A receiver handles packets as docs/vectors/received.json states. Package topics checks the deliveries.
// docs/protocol §13.1, §13.3, §2.3, §2.8, §21.1.
func TestReceivedByReceiver(t *testing.T) {
	cases, _ := receivedCases(t)
	for _, c := range cases {
		r := newReceiver(t, &log{}, func(cfg *ReceiverConfig) {
			cfg.GroupTag, cfg.Own, cfg.Checksum, cfg.MaxStreams = 0x04030201, events.Instance{Publisher: 0x99, Epoch: 4}, c.Demanded, 8
			cfg.MemoryBytes = 2 * 8 * cfg.WindowBytes
			cfg.Unpacker = compress.NewUnpacker(nil)
		})
		for _, p := range c.Before {
			r.Handle(1, 5, p)
		}
		before := r.Stats()
		r.Handle(1, 5, c.Packet)
		if diff, want := changes(before, withoutBytes(r.Stats(), before)), wantChanges(c.Counts); !maps.Equal(diff, want) {
			t.Errorf("%s (%s): counted %v, want %v", c.Name, c.Rule, diff, want)
		}
	}
}

// withoutBytes removes counters that do not count packets.
func withoutBytes(s, before stats.Receiver) stats.Receiver {
	s.Bytes, s.PackedBytes, s.UnpackedBytes = before.Bytes, before.PackedBytes, before.UnpackedBytes
	return s
}

// A publisher handles packets as docs/vectors/received.json states. docs/protocol §13.1, §13.3.
func TestReceivedByPublisher(t *testing.T) {
	_, cases := receivedCases(t)
	for _, c := range cases {
		b := newBench(t, func(cfg *SenderConfig) {
			cfg.Publisher, cfg.GroupTag, cfg.Checksum = 0x77, 0x04030201, c.Demanded
		})
		b.next()
		b.publish(10)
		b.s.win.trail = 2
		b.now = b.now.Add(time.Millisecond)
		for _, p := range c.Before {
			b.s.Handle(b.now, p, nil)
		}
		before := b.s.Stats()
		b.s.Handle(b.now, c.Packet, nil)
		if diff, want := changes(before, b.s.Stats()), wantChanges(c.Counts); !maps.Equal(diff, want) {
			t.Errorf("%s (%s): counted %v, want %v", c.Name, c.Rule, diff, want)
		}
	}
}
