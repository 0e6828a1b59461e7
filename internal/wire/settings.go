package wire

import "fmt"

// Settings are the settings, in every heartbeat and hello, that two buses must share to receive each other. The packet
// size is not one of them: it may differ between streams.
type Settings struct {
	// Groups is the number of groups to which topics are mapped.
	Groups   uint32
	Mapping  Mapping
	Checksum Checksum
}

// Mapping is the mapping of topics to groups.
type Mapping struct {
	Kind MappingKind
	// Param is the number of tokens with MappingPrefix, a digest of the lines with MappingTable, and otherwise 0.
	Param uint16
}

// MappingKind is the kind of a mapping of topics to groups. docs/protocol §3.10.
type MappingKind uint8

// Kinds of mappings: by the hash of a topic's name, by the hash of its first tokens, and by the lines of a table.
const (
	MappingHash   MappingKind = 1
	MappingPrefix MappingKind = 2
	MappingTable  MappingKind = 3
)

func (m Mapping) String() string {
	switch m.Kind {
	case MappingHash:
		if m.Param == 0 {
			return "hash"
		}
	case MappingPrefix:
		return fmt.Sprintf("prefix:%d", m.Param)
	case MappingTable:
		return fmt.Sprintf("table with digest %04x", m.Param)
	}
	return fmt.Sprintf("mapping(%d, %d)", uint8(m.Kind), m.Param)
}

// Checksum is the kind of checksum in the packets of a stream.
type Checksum uint8

// Checksums of streams.
const (
	ChecksumNone   Checksum = 0
	ChecksumCRC32C Checksum = 1
)

func (c Checksum) String() string {
	switch c {
	case ChecksumNone:
		return "none"
	case ChecksumCRC32C:
		return "CRC-32C"
	}
	return fmt.Sprintf("checksum(%d)", uint8(c))
}

// SettingsOf returns the settings of a bus with that many groups, that mapping of topics to groups (zero: MappingHash),
// and with or without a checksum in its packets.
func SettingsOf(groups int, mapping Mapping, checksum bool) Settings {
	if mapping == (Mapping{}) {
		mapping.Kind = MappingHash
	}
	s := Settings{Groups: uint32(groups), Mapping: mapping}
	if checksum {
		s.Checksum = ChecksumCRC32C
	}
	return s
}
