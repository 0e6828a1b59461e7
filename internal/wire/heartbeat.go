package wire

import (
	"encoding/binary"
	"time"
)

// Heartbeat, after the common header:
//
//	+---------------------------------------------------------------+
//	|                             lead                              |  32
//	+---------------------------------------------------------------+
//	|                             trail                             |  40
//	+---------------------------------------------------------------+
//	|                            sent at                            |  48
//	+-------------------------------+-------------------------------+
//	|     back-off window, ns       |           receivers           |  56
//	+-------------------------------+-------------------------------+
//	|     status interval, us       |     heartbeat interval, us    |  64
//	+---------------+---------------+-------------------------------+
//	|  packet size  | asked |   0   |        round trip, ns         |  72
//	+---------------+---------------+-------+-------+---------------+
//	|            groups             |mapping|checks.|map parameter  |  80
//	+-------------------------------+-------+-------+---------------+
//	|                            holder                             |  88
//	+-------------------------------+-------+-------+---------------+
//	|          held, ms             | hold  |nameln | legs  |timings|  96
//	+-------------------------------+-------+-------+-------+-------+
//	|                     the publisher's name                      |  104
//	+---------------------------------------------------------------+
//	| leg tags, 4 bytes each ...                                    |
//	+---------------------------------------------------------------+
//	|                        topic asked for                        |
//	+---------------------------------------------------------------+
//	| timing, 32 bytes (§2.24)                                      |
//	+---------------------------------------------------------------+
//
// Hold is a set of bits: 1 means that the holder was released. The name, in UTF-8, has MaxName bytes at most; nameln is
// its length. Legs is the number of leg tags, at most MaxLegs; asked is 1 if a topic is asked for, timings is 1 if
// there is a timing.
const HeartbeatLen = 104

// holdReleased is the bit of a heartbeat's byte 100 for a released holder.
const holdReleased = 1

// Heartbeat has the range of a stream's sequences and the times that its publisher has measured.
type Heartbeat struct {
	// Lead is the sequence of the next new packet: all lower ones exist.
	Lead uint64
	// Trail is the oldest sequence that the publisher can still repair, <= Lead.
	Trail uint64
	// SentAt is the time of the publisher's clock in nanoseconds; a status echoes it.
	SentAt uint64
	// Backoff is the interval over which subscribers spread a NAK for a loss that they may share; zero: they send NAKs at
	// once.
	Backoff time.Duration
	// Receivers is the number of subscribers that the publisher knows.
	Receivers uint32
	// StatusInterval is the time between two statuses of a subscriber without news.
	StatusInterval time.Duration
	// Interval is the longest time until the next heartbeat: a subscriber that receives nothing for several intervals has
	// lost the publisher.
	Interval   time.Duration
	PacketSize int // bytes
	// RTT is the publisher's smoothed round-trip time to its subscribers; zero if not known yet.
	RTT time.Duration
	// Holder is the id of the subscriber that blocks the publisher, for the time Held so far, or, with Released, of one
	// that blocked it for too long and that it no longer waits for; zero if there is none.
	Holder   uint64
	Held     time.Duration // in whole milliseconds, on the wire
	Released bool
	// Name is the publisher's name, for people to read; see CleanName.
	Name []byte
	// Settings are the settings of the publisher's bus.
	Settings Settings
	// Legs has the group's tags on each leg of that bus.
	Legs Legs
	// Asked is the id of a topic that receivers list first in their status if they subscribe to it; zero: none.
	Asked uint64
	// Timing has the send time of a packet; it is absent without a clock.
	Timing Timing
}

// askedLen is the length of the topic asked for.
const askedLen = 8

// AppendHeartbeat appends the packet to b. A name is truncated to MaxName bytes.
func AppendHeartbeat(b []byte, h Header, hb *Heartbeat) []byte {
	h.Type = TypeHeartbeat
	name := hb.Name[:min(len(hb.Name), MaxName)]
	asked := 0
	if hb.Asked != 0 {
		asked = askedLen
	}
	b, p := extend(b, HeartbeatLen+len(name)+hb.Legs.N*legTagLen+asked+hb.Timing.len())
	h.Put(p)
	binary.LittleEndian.PutUint64(p[32:], hb.Lead)
	binary.LittleEndian.PutUint64(p[40:], hb.Trail)
	binary.LittleEndian.PutUint64(p[48:], hb.SentAt)
	binary.LittleEndian.PutUint32(p[56:], clamp32(int64(hb.Backoff)))
	binary.LittleEndian.PutUint32(p[60:], hb.Receivers)
	binary.LittleEndian.PutUint32(p[64:], clamp32(hb.StatusInterval.Microseconds()))
	binary.LittleEndian.PutUint32(p[68:], clamp32(hb.Interval.Microseconds()))
	binary.LittleEndian.PutUint16(p[72:], uint16(hb.PacketSize))
	binary.LittleEndian.PutUint32(p[76:], clamp32(int64(hb.RTT)))
	binary.LittleEndian.PutUint32(p[80:], hb.Settings.Groups)
	p[84], p[85] = byte(hb.Settings.Mapping.Kind), byte(hb.Settings.Checksum)
	binary.LittleEndian.PutUint16(p[86:], hb.Settings.Mapping.Param)
	binary.LittleEndian.PutUint64(p[88:], hb.Holder)
	binary.LittleEndian.PutUint32(p[96:], clamp32(hb.Held.Milliseconds()))
	if hb.Released {
		p[100] |= holdReleased
	}
	p[101], p[102] = byte(len(name)), byte(hb.Legs.N)
	copy(p[HeartbeatLen:], name)
	hb.Legs.put(p[HeartbeatLen+len(name):])
	if asked > 0 {
		p[74] = 1
		binary.LittleEndian.PutUint64(p[HeartbeatLen+len(name)+hb.Legs.N*legTagLen:], hb.Asked)
	}
	if hb.Timing.Clock != 0 {
		p[103] = 1
		hb.Timing.put(p[len(p)-TimingLen:])
	}
	return b
}

// ParseHeartbeat parses the heartbeat b after ParseHeader. docs/protocol §13.3.
func ParseHeartbeat(b []byte) (Heartbeat, error) {
	if len(b) < HeartbeatLen {
		return Heartbeat{}, ErrShort
	}
	name, n, asked, timings := int(b[101]), int(b[102]), int(b[74]), int(b[103])
	if name > MaxName || n > MaxLegs || asked > 1 || timings > 1 {
		return Heartbeat{}, ErrMalformed
	}
	behind := HeartbeatLen + name + n*legTagLen + asked*askedLen
	if len(b) < behind+timings*TimingLen {
		return Heartbeat{}, ErrShort
	}
	hb := Heartbeat{
		Lead:           binary.LittleEndian.Uint64(b[32:]),
		Trail:          binary.LittleEndian.Uint64(b[40:]),
		SentAt:         binary.LittleEndian.Uint64(b[48:]),
		Backoff:        time.Duration(binary.LittleEndian.Uint32(b[56:])),
		Receivers:      binary.LittleEndian.Uint32(b[60:]),
		StatusInterval: time.Duration(binary.LittleEndian.Uint32(b[64:])) * time.Microsecond,
		Interval:       time.Duration(binary.LittleEndian.Uint32(b[68:])) * time.Microsecond,
		PacketSize:     int(binary.LittleEndian.Uint16(b[72:])),
		RTT:            time.Duration(binary.LittleEndian.Uint32(b[76:])),
		Holder:         binary.LittleEndian.Uint64(b[88:]),
		Held:           time.Duration(binary.LittleEndian.Uint32(b[96:])) * time.Millisecond,
		Released:       b[100]&holdReleased != 0,
		Settings: Settings{
			Groups:   binary.LittleEndian.Uint32(b[80:]),
			Mapping:  Mapping{MappingKind(b[84]), binary.LittleEndian.Uint16(b[86:])},
			Checksum: Checksum(b[85]),
		},
		Legs: legs(b[HeartbeatLen+name:], n),
	}
	if asked > 0 {
		hb.Asked = binary.LittleEndian.Uint64(b[behind-askedLen:])
	}
	if timings > 0 {
		if t := timing(b[behind:]); t.Clock != 0 { // without a clock it is ignored: docs/protocol §2.24
			hb.Timing = t
		}
	}
	if name > 0 {
		hb.Name = b[HeartbeatLen:][:name:name]
	}
	if hb.Lead > MaxSeq || hb.Trail > hb.Lead || hb.PacketSize < MinPacket || hb.PacketSize > MaxPacket {
		return Heartbeat{}, ErrMalformed
	}
	return hb, nil
}

// extend appends n zero bytes to b and returns the whole and the new part.
func extend(b []byte, n int) (whole, part []byte) {
	start := len(b)
	if cap(b)-start < n {
		grown := make([]byte, start, start+max(n, start))
		copy(grown, b)
		b = grown
	}
	b = b[:start+n]
	clear(b[start:])
	return b, b[start:]
}

// clamp32 limits v to 32 bits: longer times need no distinction.
func clamp32(v int64) uint32 {
	switch {
	case v <= 0:
		return 0
	case v > 1<<32-1:
		return 1<<32 - 1
	}
	return uint32(v)
}
