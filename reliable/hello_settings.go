package reliable

import "github.com/fanfaremq/fanfare/internal/wire"

// Settings are those of a bus with so many groups, to which its topics map in this way,
// and whose packets carry a checksum or do not. The zero mapping is that by hash.
func Settings(groups int, mapping wire.Mapping, checksum bool) wire.Settings {
	if mapping == (wire.Mapping{}) {
		mapping.Kind = wire.MappingHash
	}
	s := wire.Settings{Groups: uint32(groups), Mapping: mapping}
	if checksum {
		s.Checksum = wire.ChecksumCRC32C
	}
	return s
}
