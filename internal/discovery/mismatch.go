package discovery

import (
	"fmt"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Fabric has the parts of a bus's configuration that must be the same on all buses.
type Fabric struct {
	// Groups is the number of groups. Mapping maps topics to them; by default by hash.
	Groups  int
	Mapping wire.Mapping
	// PacketSize is the size of a full sent packet, MaxPacket the size of the largest one that can be received, in bytes.
	PacketSize, MaxPacket int
	// Checksum: sent packets have one. DemandChecksum: received packets must have one.
	Checksum, DemandChecksum bool

	legs int // number of legs of the bus
}

// theirs is the configuration of the sender's bus as stated in a packet. If the version differs, nothing else is
// compared.
type theirs struct {
	version    uint8
	settings   wire.Settings
	packetSize int
	noChecksum bool // its packets have no checksum, which is required here
	legs       theirLegs
}

// theirLegs has the number of legs of another bus, and the number of those that this bus also has. Zero: unknown.
// docs/protocol §23.10.
type theirLegs struct{ all, shared int }

// legsOf compares the legs in a heartbeat, in a packet with this tag, with own, the tags of its group on the legs of
// this bus.
func legsOf(tag uint32, legs *wire.Legs, own []uint32) theirLegs {
	x := theirLegs{all: max(1, legs.N)}
	for _, leg := range own {
		if legs.Has(tag, leg) {
			x.shared++
		}
	}
	return x
}

func (f *Fabric) settings() wire.Settings { return wire.SettingsOf(f.Groups, f.Mapping, f.Checksum) }

func harmless(list []events.ConfigDifference) bool { return len(list) == 0 || list[0].Harmless }

// differences compares the configuration of this bus with another's (docs/protocol §14.4). Differences that prevent
// communication are first.
func (f *Fabric) differences(t *theirs) (list []events.ConfigDifference) {
	add := func(field events.ConfigField, ours, theirs any, advice string) {
		list = append(list, events.ConfigDifference{Field: field, Ours: fmt.Sprint(ours), Theirs: fmt.Sprint(theirs), Advice: advice, Harmless: advice == ""})
	}
	if t.version != wire.Version {
		add(events.FieldVersion, wire.Version, t.version, "neither can parse the other's packets; run the same version of Fanfare on both")
		return list
	}
	if t.settings.Groups != uint32(f.Groups) {
		add(events.FieldGroups, f.Groups, t.settings.Groups, "most or all topics map to other groups, in which one does not receive the other's messages; give both the same number of groups (groups= in the URL)")
	}
	if ours, theirs := f.settings().Mapping, t.settings.Mapping; ours != theirs {
		advice := "most or all topics map to other groups, in which one does not receive the other's messages; give both the same mapping (map= in the URL)"
		if ours.Kind == theirs.Kind && ours.Kind == wire.MappingTable {
			advice = "most or all topics map to other groups, in which one does not receive the other's messages; give both a table with the same lines (map=table: in the URL)"
		}
		add(events.FieldMapping, ours, theirs, advice)
	}
	if t.noChecksum {
		add(events.FieldChecksum, wire.ChecksumCRC32C, t.settings.Checksum, "packets without a checksum are refused here, because this fabric does not protect them; open both buses on the same kind of fabric")
	}
	switch size := t.packetSize; {
	case size > f.MaxPacket:
		add(events.FieldPacketSize, fmt.Sprintf("at most %d", f.MaxPacket), size, fmt.Sprintf("its packets are too large for the fabric here; give both the same packet size (size=%d in the URL, or less)", f.MaxPacket))
	case size != 0 && size != f.PacketSize && size != f.PacketSize-wire.SignedOverhead && size != f.PacketSize+wire.SignedOverhead: // only one of them signs
		add(events.FieldPacketSize, f.PacketSize, size, "")
	}
	if l := t.legs; l.all > 0 && l.shared < max(l.all, f.legs) {
		add(events.FieldLegs, f.legs, fmt.Sprintf("%d (%d shared)", l.all, l.shared), "")
	}
	return list
}
