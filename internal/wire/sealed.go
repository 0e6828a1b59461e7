package wire

import (
	"encoding/binary"
	"time"
)

// Sealed packets (docs/protocol §27.2, package transport/sealed) begin with another magic, so
// that a receiver without keys can distinguish them from packets of other software.
const (
	sealedMagic0, sealedMagic1 = 'F', 's'
	sealedHeaderLen            = 40
)

// IsSealed reports whether b is a sealed packet.
func IsSealed(b []byte) bool {
	return len(b) > sealedHeaderLen && b[0] == sealedMagic0 && b[1] == sealedMagic1
}

// SealedHeader is the unencrypted header of a sealed packet.
type SealedHeader struct {
	Key, Counter, Time uint32 // Time in seconds since 1970
	Salt               [12]byte
}

// At returns Time.
func (h SealedHeader) At() time.Time { return time.Unix(int64(h.Time), 0).UTC() }

// ParseSealed parses the header of a sealed packet (IsSealed).
func ParseSealed(b []byte) SealedHeader {
	return SealedHeader{
		Key: binary.LittleEndian.Uint32(b[8:]), Counter: binary.LittleEndian.Uint32(b[4:]),
		Time: binary.LittleEndian.Uint32(b[12:]), Salt: [12]byte(b[16:]),
	}
}
