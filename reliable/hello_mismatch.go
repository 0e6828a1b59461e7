package reliable

import (
	"fmt"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// Field is something that is configured at a bus, and that others must know.
type Field string

// Fields in which buses may differ.
const (
	FieldVersion    Field = "version"
	FieldGroups     Field = "groups"
	FieldMapping    Field = "mapping"
	FieldChecksum   Field = "checksum"
	FieldPacketSize Field = "packet size"
	FieldLegs       Field = "legs"
)

// Difference is one field in which another bus is configured differently.
type Difference struct {
	Field        Field
	Ours, Theirs string
	// Harmless: each understands the other all the same.
	Harmless bool
	// Advice says what to do, in a few words; empty if Harmless.
	Advice string
}

func (d Difference) String() string {
	s := fmt.Sprintf("%s %s there, %s here", d.Field, d.Theirs, d.Ours)
	if d.Advice != "" {
		s += ": " + d.Advice
	}
	return s
}

// ConfigMismatchError says in what another bus on the same addresses is configured
// differently.
type ConfigMismatchError struct {
	Publisher, Epoch uint64 // of the other bus
	Name, Address    string // of it, as far as known; for people
	// Differences are one at least, those that keep the two apart first.
	Differences []Difference
}

// Harmless reports whether all that differs is only information.
func (e *ConfigMismatchError) Harmless() bool { return harmless(e.Differences) }

func (e *ConfigMismatchError) Error() string {
	who := fmt.Sprintf("bus %016x", e.Publisher)
	if e.Name != "" {
		who = fmt.Sprintf("bus %s (id %016x)", e.Name, e.Publisher)
	}
	if e.Address != "" {
		who += " at " + e.Address
	}
	what := ""
	for i, d := range e.Differences {
		if i > 0 {
			what += "; "
		}
		what += d.String()
	}
	return who + " is configured differently: " + what
}

// Fabric is how a bus is configured, as far as it may keep the bus apart from others.
type Fabric struct {
	// Groups that topics map to, and how they do: by default by hash.
	Groups  int
	Mapping wire.Mapping
	// PacketSize is the size of a full packet sent, MaxPacket of the largest that can
	// be received, in bytes.
	PacketSize, MaxPacket int
	// Checksum: what it sends carries one. DemandChecksum: what it receives must.
	Checksum, DemandChecksum bool

	legs int // that the bus is on
}

// theirs is what a packet says of the bus that sent it. Of another version nothing
// else is compared.
type theirs struct {
	version    uint8
	settings   wire.Settings
	packetSize int
	noChecksum bool // its packets carry no checksum, which is demanded here
	legs       theirLegs
}

// theirLegs is on how many legs another bus is, and how many of them are ours, too; zero: it
// has not said so. docs/protocol.md §23.10.
type theirLegs struct{ all, shared int }

// settings are what its packets say of the bus.
func (f *Fabric) settings() wire.Settings { return Settings(f.Groups, f.Mapping, f.Checksum) }

// harmless reports whether all of it is.
func harmless(list []Difference) bool { return len(list) == 0 || list[0].Harmless }

// differences compares a bus's own configuration with another's
// (docs/protocol.md §14.4). Those that keep them apart come first.
func (f *Fabric) differences(t *theirs) (list []Difference) {
	add := func(field Field, ours, theirs any, advice string) {
		list = append(list, Difference{Field: field, Ours: fmt.Sprint(ours), Theirs: fmt.Sprint(theirs), Advice: advice, Harmless: advice == ""})
	}
	if t.version != wire.Version {
		add(FieldVersion, wire.Version, t.version, "packets of one are not understood by the other; run the same version of Fanfare at both ends")
		return list
	}
	if t.settings.Groups != uint32(f.Groups) {
		add(FieldGroups, f.Groups, t.settings.Groups, "topics map to other groups, most or all of them, and one does not hear the other there; give both the same number of groups (groups= in the URL)")
	}
	if ours, theirs := f.settings().Mapping, t.settings.Mapping; ours != theirs {
		advice := "topics map to other groups, most or all of them, and one does not hear the other there; give both the same mapping (map= in the URL)"
		if ours.Kind == theirs.Kind && ours.Kind == wire.MappingTable {
			advice = "topics map to other groups, most or all of them, and one does not hear the other there; give both a table with the same lines (map=table: in the URL)"
		}
		add(FieldMapping, ours, theirs, advice)
	}
	if t.noChecksum {
		add(FieldChecksum, wire.ChecksumCRC32C, t.settings.Checksum, "packets without a checksum are refused here, where the fabric does not protect them; open both buses on the same kind of fabric")
	}
	switch size := t.packetSize; {
	case size > f.MaxPacket:
		add(FieldPacketSize, fmt.Sprintf("at most %d", f.MaxPacket), size, fmt.Sprintf("its packets do not fit the fabric here; give both the same packet size (size=%d in the URL, or less)", f.MaxPacket))
	case size != 0 && size != f.PacketSize && size != f.PacketSize-wire.SignedOverhead && size != f.PacketSize+wire.SignedOverhead: // one signs
		add(FieldPacketSize, f.PacketSize, size, "")
	}
	if l := t.legs; l.all > 0 && l.shared < max(l.all, f.legs) {
		add(FieldLegs, f.legs, fmt.Sprintf("%d (%d shared)", l.all, l.shared), "")
	}
	return list
}
