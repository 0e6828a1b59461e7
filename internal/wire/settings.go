package wire

import "fmt"

// Settings are what two buses must have in common to hear each other, as far as
// every heartbeat and hello tells. Packet sizes are told beside them: each stream
// has its own.
type Settings struct {
	// Groups is the number of groups that topics map to.
	Groups   uint32
	Mapping  Mapping
	Checksum Checksum
}

// Mapping says how topics map to groups.
type Mapping uint8

// MappingHash is the only mapping so far: the hash of a topic's name, over the
// number of groups.
const MappingHash Mapping = 1

func (m Mapping) String() string {
	if m == MappingHash {
		return "hash"
	}
	return fmt.Sprintf("mapping(%d)", uint8(m))
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
