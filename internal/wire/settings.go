package wire

import "fmt"

// Settings are the settings that two buses must share to receive each other, as far as every heartbeat and hello
// has them. Packet sizes are apart: each stream has its own.
type Settings struct {
	// Groups is the number of groups that topics map to.
	Groups   uint32
	Mapping  Mapping
	Checksum Checksum
}

// Mapping says how topics map to groups.
type Mapping struct {
	Kind MappingKind
	// Param is the number of tokens of MappingPrefix, and a digest of the lines of MappingTable; otherwise 0.
	Param uint16
}

// MappingKind is a way to map topics to groups. docs/protocol §3.10.
type MappingKind uint8

// Kinds of mappings: by the hash of a topic's name, by that of its first tokens, and by the lines of a table.
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

// Checksum says what checksum the packets of a stream carry.
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

// SettingsOf returns the settings of a bus with this many groups, with this mapping of topics to groups (the zero
// mapping is MappingHash), and with or without a checksum in its packets.
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
