package reliable

import "github.com/fanfaremq/fanfare/internal/wire"

// Settings are those of a bus with so many groups, whose packets carry a checksum or
// do not.
func Settings(groups int, checksum bool) wire.Settings {
	s := wire.Settings{Groups: uint32(groups), Mapping: wire.MappingHash}
	if checksum {
		s.Checksum = wire.ChecksumCRC32C
	}
	return s
}
