package wire

import "encoding/binary"

// Timing, after the leg tags of a heartbeat:
//
//	+---------------------------------------------------------------+
//	|                             clock                             |   0
//	+---------------------------------------------------------------+
//	|                         timed packet                          |   8
//	+---------------------------------------------------------------+
//	|                        when it was sent                       |  16
//	+---------------------------------------------------------------+
//	|                             next                              |  24
//	+---------------------------------------------------------------+
const TimingLen = 32

// Timing has the send time of one packet, for receivers with the same clock. docs/protocol §5.11.
type Timing struct {
	// Clock is the id of the clock; zero: there is no timing.
	Clock uint64
	// Packet is the sequence of a packet, and At the time when it was first passed to the fabric, in nanoseconds since
	// 1970 by that clock; zero: none was timed yet.
	Packet, At uint64
	// Next is the sequence of the packet that will be timed next.
	Next uint64
}

// len returns its length in a heartbeat, in bytes.
func (t *Timing) len() int {
	if t.Clock == 0 {
		return 0
	}
	return TimingLen
}

func (t *Timing) put(p []byte) {
	binary.LittleEndian.PutUint64(p, t.Clock)
	binary.LittleEndian.PutUint64(p[8:], t.Packet)
	binary.LittleEndian.PutUint64(p[16:], t.At)
	binary.LittleEndian.PutUint64(p[24:], t.Next)
}

func timing(p []byte) Timing {
	return Timing{binary.LittleEndian.Uint64(p), binary.LittleEndian.Uint64(p[8:]),
		binary.LittleEndian.Uint64(p[16:]), binary.LittleEndian.Uint64(p[24:])}
}
