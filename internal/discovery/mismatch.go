package discovery

import (
	"fmt"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Fabric is the configuration of a bus, as far as a difference may keep it apart from others.
type Fabric struct {
	// Groups is the number of groups, and Mapping how topics map to them: by default by hash.
	Groups  int
	Mapping wire.Mapping
	// PacketSize is the size of a full packet sent, MaxPacket of the largest that can be received, in bytes.
	PacketSize, MaxPacket int
	// Checksum: packets sent carry one. DemandChecksum: packets received must.
	Checksum, DemandChecksum bool

	legs int // of the bus
}

// theirs is what a packet says about the configuration of its sender's bus. Of another version nothing
// but the version is compared.
type theirs struct {
	version    uint8
	settings   wire.Settings
	packetSize int
	noChecksum bool // its packets carry no checksum, which is demanded here
	legs       theirLegs
}

// theirLegs is the number of legs of another bus, and of those that this bus has, too. Zero: unknown.
// docs/protocol §23.10.
type theirLegs struct{ all, shared int }

// legsOf compares the legs in a heartbeat, in a packet with that tag, with the tags of its group on the legs of this
// bus.
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

// differences compares a bus's own configuration with another's
// (docs/protocol §14.4). Differences that keep the buses apart come first.
func (f *Fabric) differences(t *theirs) (list []events.ConfigDifference) {
	add := func(field events.ConfigField, ours, theirs any, advice string) {
		list = append(list, events.ConfigDifference{Field: field, Ours: fmt.Sprint(ours), Theirs: fmt.Sprint(theirs), Advice: advice, Harmless: advice == ""})
	}
	if t.version != wire.Version {
		add(events.FieldVersion, wire.Version, t.version, "packets of one are not understood by the other; run the same version of Fanfare at both ends")
		return list
	}
	if t.settings.Groups != uint32(f.Groups) {
		add(events.FieldGroups, f.Groups, t.settings.Groups, "topics map to other groups, most or all of them, and one does not hear the other there; give both the same number of groups (groups= in the URL)")
	}
	if ours, theirs := f.settings().Mapping, t.settings.Mapping; ours != theirs {
		advice := "topics map to other groups, most or all of them, and one does not hear the other there; give both the same mapping (map= in the URL)"
		if ours.Kind == theirs.Kind && ours.Kind == wire.MappingTable {
			advice = "topics map to other groups, most or all of them, and one does not hear the other there; give both a table with the same lines (map=table: in the URL)"
		}
		add(events.FieldMapping, ours, theirs, advice)
	}
	if t.noChecksum {
		add(events.FieldChecksum, wire.ChecksumCRC32C, t.settings.Checksum, "packets without a checksum are refused here, where the fabric does not protect them; open both buses on the same kind of fabric")
	}
	switch size := t.packetSize; {
	case size > f.MaxPacket:
		add(events.FieldPacketSize, fmt.Sprintf("at most %d", f.MaxPacket), size, fmt.Sprintf("its packets do not fit the fabric here; give both the same packet size (size=%d in the URL, or less)", f.MaxPacket))
	case size != 0 && size != f.PacketSize && size != f.PacketSize-wire.SignedOverhead && size != f.PacketSize+wire.SignedOverhead: // one signs
		add(events.FieldPacketSize, f.PacketSize, size, "")
	}
	if l := t.legs; l.all > 0 && l.shared < max(l.all, f.legs) {
		add(events.FieldLegs, f.legs, fmt.Sprintf("%d (%d shared)", l.all, l.shared), "")
	}
	return list
}
