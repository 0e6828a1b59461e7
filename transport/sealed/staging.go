package sealed

import "github.com/fanfaremq/fanfare/transport"

// staging is the memory that sealed packets are sent from. It is used from the beginning again
// whenever nothing in it is being sent, so that over a fabric which sends at once it stays in the
// cache; else around, as a ring.
type staging struct {
	mem   []byte
	at    int            // where the next goes
	low   int            // where the oldest that is being sent begins
	spans [maxSpans]span // that are being sent, a ring
	first uint64         // index of the oldest
	count uint64         // index behind the youngest
	end   int            // of what was taken last
}

// span is a train that is being sent.
type span struct {
	end  int    // where it ends in the memory
	upTo uint64 // it is over when so many packets are completed
}

const maxSpans = 64

// stagingBytes is how much memory is taken: some trains.
func stagingBytes(c transport.Capabilities) int {
	const trains = 4
	return trains * max(c.MaxTrainBytes, c.MaxPacket)
}

// take returns n bytes to write sealed packets to, when so many packets are completed. It reports
// false where too much is being sent.
func (s *staging) take(n int, completed uint64) ([]byte, bool) {
	for s.first < s.count && s.spans[s.first%maxSpans].upTo <= completed {
		s.low = s.spans[s.first%maxSpans].end
		s.first++
	}
	switch {
	case s.first == s.count:
		s.at, s.low = 0, 0
	case s.count-s.first == maxSpans:
		return nil, false
	case s.at > s.low && s.at+n > len(s.mem):
		if n >= s.low {
			return nil, false
		}
		s.at = 0
	case s.at <= s.low && s.at+n >= s.low:
		return nil, false
	}
	if s.at+n > len(s.mem) {
		return nil, false
	}
	s.end = s.at + n
	return s.mem[s.at:s.end:s.end], true
}

// sent notes that what was taken last is being sent, if any of it is, until upTo packets are completed.
func (s *staging) sent(upTo uint64, any bool) {
	if any {
		s.spans[s.count%maxSpans] = span{end: s.end, upTo: upTo}
		s.count++
		s.at = s.end
	}
}
