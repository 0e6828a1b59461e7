package pubsub

import "github.com/fanfaremq/fanfare/reliable"

// ConfigField is something that is configured at a bus, and that buses must have in
// common to hear each other, or at least should know of each other.
type ConfigField string

// Fields of a ConfigDifference.
const (
	// FieldVersion: the version of the packet format.
	FieldVersion ConfigField = ConfigField(reliable.FieldVersion)
	// FieldGroups: the number of groups that topics map to (groups= in the URL).
	FieldGroups ConfigField = ConfigField(reliable.FieldGroups)
	// FieldMapping: how topics map to groups (map= in the URL).
	FieldMapping ConfigField = ConfigField(reliable.FieldMapping)
	// FieldChecksum: packets carry no checksum, and this bus demands one, because its
	// fabric does not protect packets by itself.
	FieldChecksum ConfigField = ConfigField(reliable.FieldChecksum)
	// FieldPacketSize: the size of a full packet (size= in the URL), in bytes. It
	// matters only where it is more than this bus's fabric carries.
	FieldPacketSize ConfigField = ConfigField(reliable.FieldPacketSize)
	// FieldLegs: the other bus publishes on more or fewer legs (Open with several URLs), or
	// on others. It is always harmless, but what is on one leg only nothing fills.
	FieldLegs ConfigField = ConfigField(reliable.FieldLegs)
)

// ConfigDifference is one field in which another bus is configured differently.
type ConfigDifference struct {
	Field        ConfigField
	Ours, Theirs string
	// Harmless: the buses understand each other all the same.
	Harmless bool
	// Advice says what to do; empty if Harmless.
	Advice string
}

// ConfigMismatchError says in what another bus on the same addresses is configured
// differently. It is the Err of an event of kind ConfigMismatch, or ConfigDiffers, and what
// Publisher.WaitSubscribers returns where the only subscribers there are cannot hear
// the publisher.
type ConfigMismatchError struct {
	Publisher PublisherID // the other bus
	Epoch     uint64      // of its start
	// Name is its Config.Name or, by default, its host and process; Address is where
	// its packets come from. Each is empty if it is not known, and for people only.
	Name, Address string
	// Differences are one at least, those that keep the two apart first.
	Differences []ConfigDifference
}

func (e *ConfigMismatchError) Error() string {
	r := reliable.ConfigMismatchError{Publisher: uint64(e.Publisher), Epoch: e.Epoch, Name: e.Name, Address: e.Address}
	for _, d := range e.Differences {
		r.Differences = append(r.Differences, reliable.Difference{
			Field: reliable.Field(d.Field), Ours: d.Ours, Theirs: d.Theirs, Harmless: d.Harmless, Advice: d.Advice,
		})
	}
	return r.Error()
}

// Harmless reports whether all that differs is only information: the buses understand
// each other all the same.
func (e *ConfigMismatchError) Harmless() bool {
	for _, d := range e.Differences {
		if !d.Harmless {
			return false
		}
	}
	return true
}

func publicMismatch(e *reliable.ConfigMismatchError) *ConfigMismatchError {
	m := &ConfigMismatchError{Publisher: PublisherID(e.Publisher), Epoch: e.Epoch, Name: e.Name, Address: e.Address}
	for _, d := range e.Differences {
		m.Differences = append(m.Differences, ConfigDifference{
			Field: ConfigField(d.Field), Ours: d.Ours, Theirs: d.Theirs, Harmless: d.Harmless, Advice: d.Advice,
		})
	}
	return m
}
