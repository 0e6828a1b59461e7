package pubsub

import (
	"os"
	"reflect"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
)

// The defaults equal those of the specification's table. docs/protocol §20.2.
func TestDefaultsAreSpecified(t *testing.T) {
	text, err := os.ReadFile("../docs/protocol/timers.md")
	if err != nil {
		t.Fatal(err)
	}
	var c Config
	if err := c.setDefaults(); err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\|[^|]*\\| ([0-9.]+) ?(\\S*) \\| `(pubsub|reliable)\\.(?:Sender)?Config\\.(\\w+)` \\|").FindAllStringSubmatch(string(text), -1)
	if len(rows) < 10 {
		t.Fatalf("the table has only %d rows of defaults", len(rows))
	}
	units := map[string]float64{"": 1, "MiB": 1 << 20, "s": float64(time.Second)}
	for _, row := range rows {
		want, err := strconv.ParseFloat(row[1], 64)
		if err != nil || units[row[2]] == 0 {
			t.Errorf("%s: value %s %s, want a number and a known unit", row[4], row[1], row[2])
		}
		if row[3] == "reliable" {
			if got := members(t); float64(got) != want {
				t.Errorf("%s: %d, the table says %g", row[4], got, want)
			}
			continue
		}
		field := reflect.ValueOf(c).FieldByName(row[4])
		if !field.IsValid() {
			t.Errorf("Config has no field %s", row[4])
			continue
		}
		if got := field.Convert(reflect.TypeFor[float64]()).Float(); got != want*units[row[2]] {
			t.Errorf("%s is %v, the table says %s %s", row[4], field, row[1], row[2])
		}
	}
}

// members is the maximum number of subscribers that a publisher tracks.
func members(t *testing.T) int {
	t.Helper()
	cfg := reliable.SenderConfig{Publisher: 1, Epoch: 1, PacketSize: 512, WindowPackets: 16, RepairShare: 0.5, Silence: time.Second}
	s, err := reliable.NewSender(cfg, make([]byte, cfg.BlockBytes()*cfg.LeastBlocks()), reliable.Instant(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	for id := range uint64(2000) {
		h := wire.Header{Publisher: cfg.Publisher, Epoch: cfg.Epoch}
		s.Handle(reliable.Instant(time.Hour), wire.AppendStatus(nil, h, &wire.Status{Receiver: id + 1}, nil), nil)
	}
	return len(s.Members(reliable.Instant(time.Hour)))
}
