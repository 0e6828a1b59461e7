package events

import (
	"slices"
	"strings"
)

// ConfigField is a setting that two buses must have in common to receive each other's packets, or
// that one bus reports about the other.
type ConfigField string

// Fields of a ConfigDifference.
const (
	// FieldVersion: the version of the packet format.
	FieldVersion ConfigField = "version"
	// FieldGroups: the number of groups that topics map to (groups= in the URL).
	FieldGroups ConfigField = "groups"
	// FieldMapping: how topics map to groups (map= in the URL).
	FieldMapping ConfigField = "mapping"
	// FieldChecksum: packets carry no checksum, and this bus demands one, because its
	// fabric does not protect packets by itself.
	FieldChecksum ConfigField = "checksum"
	// FieldPacketSize: the size of a full packet (size= in the URL), in bytes. It
	// matters only where it is more than this bus's fabric carries.
	FieldPacketSize ConfigField = "packet size"
	// FieldLegs: the other bus publishes on more or fewer legs (Open with several URLs), or on others. This is always
	// harmless, but packets lost on a leg that both do not share are repaired by NAKs only.
	FieldLegs ConfigField = "legs"
)

// ConfigDifference is one field in which another bus is configured differently.
type ConfigDifference struct {
	Field        ConfigField
	Ours, Theirs string
	// Harmless: the buses still receive each other's packets.
	Harmless bool
	// Advice says what to do; empty if Harmless.
	Advice string
}

func (d ConfigDifference) String() string {
	s := string(d.Field) + " " + d.Theirs + " there, " + d.Ours + " here"
	if d.Advice != "" {
		s += ": " + d.Advice
	}
	return s
}

// ConfigMismatchError reports the differences in configuration between this bus and another one on the same addresses.
// It is the Err of an event of kind ConfigMismatch or ConfigDiffers, and pubsub.Publisher.WaitSubscribers returns it
// where the only subscribers cannot receive the publisher's packets.
type ConfigMismatchError struct {
	Publisher ID // the other bus
	Epoch     ID // of its start
	// Name is the other bus's Config.Name or, by default, its host and process; Address is the
	// source of its packets. Each is empty if it is not known, and for people only.
	Name, Address string
	// Differences has at least one element; those that keep the two buses apart come first.
	Differences []ConfigDifference
}

func (e *ConfigMismatchError) Error() string {
	b := strings.Builder{}
	b.WriteString("bus ")
	if e.Name != "" {
		b.WriteString(e.Name + " (id " + e.Publisher.String() + ")")
	} else {
		b.WriteString(e.Publisher.String())
	}
	b.WriteString(at(e.Address) + " is configured differently: ")
	for i, d := range e.Differences {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(d.String())
	}
	return b.String()
}

// Harmless reports whether the buses receive each other's packets despite all differences.
func (e *ConfigMismatchError) Harmless() bool {
	return !slices.ContainsFunc(e.Differences, func(d ConfigDifference) bool { return !d.Harmless })
}
