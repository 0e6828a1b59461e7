// Package staging is the send memory of transports that change packets before sending.
package staging

import "github.com/fanfaremq/fanfare/transport"

// Memory is memory to send trains from. When none of it is being sent it is used from the beginning again, so that it
// stays in the cache if the fabric sends synchronously; otherwise it is a ring. It belongs to one goroutine at a time.
type Memory struct {
	Bytes []byte
	at    int            // offset of the next train
	low   int            // offset of the oldest train being sent
	spans [maxSpans]span // trains being sent, a ring
	first uint64         // index of the oldest span
	count uint64         // index after the newest span
	end   int            // end of the memory taken last
}

// span is a train that is being sent.
type span struct {
	end  int    // offset of its end
	upTo uint64 // it is sent when this many packets are completed
}

const maxSpans = 64

// Size is the number of bytes to allocate: some trains.
func Size(c transport.Capabilities) int {
	const trains = 4
	return trains * max(c.MaxTrainBytes, c.MaxPacket)
}

// Alloc returns n bytes to write packets to, given the number of completed packets. It returns false while too
// much is being sent.
func (m *Memory) Alloc(n int, completed uint64) ([]byte, bool) {
	for m.first < m.count && m.spans[m.first%maxSpans].upTo <= completed {
		m.low = m.spans[m.first%maxSpans].end
		m.first++
	}
	switch {
	case m.first == m.count:
		m.at, m.low = 0, 0
	case m.count-m.first == maxSpans:
		return nil, false
	case m.at > m.low && m.at+n > len(m.Bytes):
		if n >= m.low {
			return nil, false
		}
		m.at = 0
	case m.at <= m.low && m.at+n >= m.low:
		return nil, false
	}
	if m.at+n > len(m.Bytes) {
		return nil, false
	}
	m.end = m.at + n
	return m.Bytes[m.at:m.end:m.end], true
}

// Sent records that the memory taken last is being sent, if any of it is, until upTo packets are completed.
func (m *Memory) Sent(upTo uint64, any bool) {
	if any {
		m.spans[m.count%maxSpans] = span{end: m.end, upTo: upTo}
		m.count++
		m.at = m.end
	}
}
