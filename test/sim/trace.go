package sim

import (
	"fmt"
	"hash/crc32"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// The trace of a run, packet by packet.

func (s *sim) trace(format string, args ...any) {
	if s.o.Trace != nil {
		fmt.Fprintf(s.o.Trace, "%12v "+format+"\n", append([]any{time.Duration(s.now)}, args...)...)
	}
}

// describe prints a packet in a trace.
type describe struct{ b []byte }

func (d describe) String() string {
	h, err := wire.ParseHeader(d.b)
	if err != nil {
		return err.Error()
	}
	name := fmt.Sprintf("%v %v.%d flags %#x", h.Type, h.Publisher, h.Epoch, uint8(h.Flags))
	switch h.Type {
	case wire.TypeData:
		if p, err := wire.ParseData(d.b); err == nil {
			return fmt.Sprintf("%s seq %d, %d bytes", name, p.Seq, len(d.b))
		}
	case wire.TypeHeartbeat:
		if p, err := wire.ParseHeartbeat(d.b); err == nil {
			return fmt.Sprintf("%s %d..%d receivers %d every %v rtt %v backoff %v", name, p.Trail, p.Lead, p.Receivers, p.Interval, p.RTT, p.Backoff)
		}
	case wire.TypeStatus:
		if p, err := wire.ParseStatus(d.b); err == nil {
			return fmt.Sprintf("%s next %d limit %d", name, p.Next, p.Limit)
		}
	case wire.TypeNAK, wire.TypeNCF, wire.TypeGone:
		if p, err := wire.ParseRanges(d.b); err == nil {
			for {
				first, n, ok := p.Next()
				if !ok {
					return name
				}
				name += fmt.Sprintf(" %d+%d", first, n)
			}
		}
	}
	return name
}

func sum32(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }
