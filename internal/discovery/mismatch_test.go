package discovery

import (
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// docs/protocol §14.4, §14.1.
func TestDifferences(t *testing.T) {
	ours := Fabric{Groups: 16, PacketSize: 1472, MaxPacket: 4096}
	demanding := ours
	demanding.DemandChecksum = true
	byPrefix, byTable := ours, ours
	byPrefix.Mapping = wire.Mapping{Kind: wire.MappingPrefix, Param: 2}
	byTable.Mapping = wire.Mapping{Kind: wire.MappingTable, Param: 0x3fa2}
	mapped := func(kind wire.MappingKind, param uint16) func(*theirs) {
		return func(x *theirs) { x.settings.Mapping = wire.Mapping{Kind: kind, Param: param} }
	}
	same := theirs{version: wire.Version, settings: wire.SettingsOf(16, wire.Mapping{}, false), packetSize: 1472}
	but := func(change func(*theirs)) theirs {
		x := same
		change(&x)
		return x
	}
	for _, c := range []struct {
		name     string
		ours     Fabric
		theirs   theirs
		want     string // fields that prevent reception
		harmless string // fields that do not
	}{
		{"the same", ours, same, "", ""},
		{"version", ours, but(func(x *theirs) { x.version = 2 }), "version", ""},
		{"version, and all else", ours, theirs{version: 9}, "version", ""},
		{"groups", ours, but(func(x *theirs) { x.settings.Groups = 64 }), "groups", ""},
		{"mapping", ours, but(mapped(wire.MappingPrefix, 2)), "mapping", ""},
		{"mapping, here by prefix", byPrefix, same, "mapping", ""},
		{"the same number of tokens", byPrefix, but(mapped(wire.MappingPrefix, 2)), "", ""},
		{"another number of tokens", byPrefix, but(mapped(wire.MappingPrefix, 3)), "mapping", ""},
		{"the same table", byTable, but(mapped(wire.MappingTable, 0x3fa2)), "", ""},
		{"another table", byTable, but(mapped(wire.MappingTable, 0x3fa3)), "mapping", ""},
		{"a mapping of the future", ours, but(mapped(9, 1)), "mapping", ""},
		{"a checksum that is not required", ours, but(func(x *theirs) { x.settings.Checksum = wire.ChecksumCRC32C }), "", ""},
		{"no checksum, and none required", ours, same, "", ""},
		{"no checksum, and one required", demanding, but(func(x *theirs) { x.noChecksum = true }), "checksum", ""},
		{"smaller packets", ours, but(func(x *theirs) { x.packetSize = 512 }), "", "packet size"},
		{"larger packets", ours, but(func(x *theirs) { x.packetSize = 4096 }), "", "packet size"},
		{"packets too large", ours, but(func(x *theirs) { x.packetSize = 4097 }), "packet size", ""},
		{"several", ours, but(func(x *theirs) { x.settings.Groups, x.packetSize = 64, 512 }), "groups", "packet size"},
	} {
		list := c.ours.differences(&c.theirs)
		var apart, harmlessOnes []string
		for _, d := range list {
			if d.Harmless != (d.Advice == "") || d.Ours == d.Theirs || d.Ours == "" || d.Theirs == "" {
				t.Errorf("%s: difference %+v lacks a value, or its advice contradicts Harmless", c.name, d)
			}
			if d.Harmless {
				harmlessOnes = append(harmlessOnes, string(d.Field))
			} else {
				apart = append(apart, string(d.Field))
				if len(harmlessOnes) > 0 {
					t.Errorf("%s: a harmless difference comes first: %v", c.name, list)
				}
			}
		}
		if strings.Join(apart, ",") != c.want || strings.Join(harmlessOnes, ",") != c.harmless || harmless(list) != (c.want == "") {
			t.Errorf("%s: differences %v, want harmful %s, harmless %s", c.name, list, c.want, c.harmless)
		}
	}
	byOthers := but(mapped(wire.MappingPrefix, 2))
	if s := ours.differences(&byOthers)[0].String(); !strings.HasPrefix(s, "mapping prefix:2 there, hash here: ") || !strings.Contains(s, "map= in the URL") {
		t.Errorf("difference %q, want mapping prefix:2 there, hash here, and advice on map=", s)
	}
	byOthers = but(mapped(wire.MappingTable, 7))
	if s := byTable.differences(&byOthers)[0].String(); !strings.HasPrefix(s, "mapping table with digest 0007 there, table with digest 3fa2 here: ") || !strings.Contains(s, "same lines") {
		t.Errorf("difference %q, want the digests 0007 there and 3fa2 here, and advice on the lines", s)
	}
	byOthers = but(mapped(wire.MappingHash, 7))
	if s := ours.differences(&byOthers)[0].String(); !strings.HasPrefix(s, "mapping mapping(1, 7) there, hash here: ") {
		t.Errorf("difference %q, want mapping(1, 7) there, hash here", s)
	}
	e := events.ConfigMismatchError{Publisher: 0xabc, Name: "feed/77", Address: "10.0.0.7:40233", Differences: []events.ConfigDifference{
		{Field: events.FieldGroups, Ours: "16", Theirs: "64", Advice: "do this"}, {Field: events.FieldPacketSize, Ours: "1472", Theirs: "512", Harmless: true}}}
	want := "bus feed/77 (id 0000000000000abc) at 10.0.0.7:40233 is configured differently: groups 64 there, 16 here: do this; packet size 512 there, 1472 here"
	if e.Error() != want || e.Harmless() {
		t.Errorf("error text\n%s\nwant\n%s (not harmless)", e.Error(), want)
	}
}

func TestReports(t *testing.T) {
	sane := theirs{version: wire.Version, settings: wire.SettingsOf(64, wire.Mapping{}, false)}
	strange := theirs{version: 2}
	noChecksum := theirs{version: wire.Version, noChecksum: true}
	var x reports
	for i, c := range []struct {
		publisher, epoch events.ID
		t                theirs
		want             bool
	}{
		{1, 1, sane, true},
		{1, 1, sane, false},    // once
		{2, 1, sane, true},     // each
		{1, 2, sane, true},     // again after a restart
		{1, 2, strange, false}, // may be damage
		{1, 2, strange, true},
		{1, 2, strange, false},
		{3, 1, noChecksum, false},
		{3, 1, sane, true}, // the earlier report was of a damaged packet
		{3, 1, noChecksum, false},
		{3, 1, noChecksum, true},
	} {
		if got := x.due(reliable.Instant(i), events.Instance{Publisher: c.publisher, Epoch: c.epoch}, c.t); got != c.want {
			t.Errorf("case %d: due(%+v) = %v, want %v", i, c, !c.want, c.want)
		}
	}
}

// Of many forged buses only a few are reported, and memory is limited.
func TestReportsAreBounded(t *testing.T) {
	var x reports
	n := 0
	const seconds = 10
	for i := range events.ID(100_000) {
		if x.due(reliable.Instant(time.Hour)+reliable.Instant(i)*reliable.Instant(seconds*time.Second/100_000), events.Instance{Publisher: i, Epoch: 1}, theirs{version: wire.Version}) {
			n++
		}
	}
	if n < reportsAtOnce || n > reportsAtOnce+seconds {
		t.Errorf("reported %d times in %d s, want %d to %d", n, seconds, reportsAtOnce, reportsAtOnce+seconds)
	}
}

func TestAllowance(t *testing.T) {
	var a allowance
	at := reliable.Instant(time.Hour)
	took := func() (n int) {
		for range 100 {
			if a.take(at, 4, time.Second) {
				n++
			}
		}
		return n
	}
	for _, c := range []struct {
		later time.Duration
		want  int
	}{{0, 4}, {time.Second, 1}, {time.Second / 2, 0}, {time.Second / 2, 1}, {time.Hour, 4}, {10 * time.Second / 4, 2}} {
		at = at.Add(c.later)
		if n := took(); n != c.want {
			t.Errorf("%v later: %d, want %d", c.later, n, c.want)
		}
	}
}

// docs/protocol §14.3.
func TestSearch(t *testing.T) {
	var s search
	s.due = reliable.Never
	missing := true
	var on []float64 // when the search began and ended, in seconds
	run := func(from, to time.Duration) {
		was := s.on
		for at := from; at < to; at += 10 * time.Millisecond {
			s.tick(reliable.Instant(at), func() bool { return missing })
			if s.on != was {
				was = s.on
				on = append(on, at.Seconds())
			}
		}
	}
	expect := func(what string, want ...float64) {
		t.Helper()
		if len(on) != len(want) {
			t.Fatalf("%s: reports %v, want %v", what, on, want)
		}
		for i := range on {
			if on[i] != want[i] {
				t.Fatalf("%s: reports %v, want %v", what, on, want)
			}
		}
		on = nil
	}
	run(0, time.Second)
	expect("without a subscription")
	s.begin(0)
	run(0, 110*time.Second)
	expect("no publisher received", 1, 3, 8, 10, 20, 22, 42, 44, 74, 76, 106, 108)
	s.begin(reliable.Instant(110 * time.Second))
	run(110*time.Second, 112*time.Second)
	expect("another topic wanted", 111)
	missing = false
	run(112*time.Second, 115*time.Second)
	expect("heard", 112)
	missing = true // the publisher leaves
	run(115*time.Second, 130*time.Second)
	expect("left again", 117, 119, 129)
}
