package topics

import (
	"encoding/binary"
	"encoding/hex"
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/internal/wiretest"
	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/reliable"
)

// wholeTopics are the topics that the readers of these tests want.
var wholeTopics = []string{"a.b", "c"}

// deliver passes packets to a new receiver and returns the messages that a reader of wholeTopics delivers.
func deliver(t *testing.T, packets ...[]byte) (messages []string, stats stats.ReceiverPackets) {
	t.Helper()
	rd := NewReader(0, 1<<20)
	for _, name := range wholeTopics {
		rd.Want(wire.TopicID(name), name, nil)
	}
	r := newReceiver(t, wholeTopics[0], func(e *reliable.Event) {
		var it Item
		rd.Take(e)
		for nextOf(rd, &it) {
			if !it.Gap() {
				messages = append(messages, string(it.Data))
			}
		}
	})
	for i, p := range packets {
		r.Handle(reliable.Instant(time.Hour)+reliable.Instant(i), 1, p)
	}
	return messages, r.Stats()
}

// A reader delivers all messages of a packet, or none if any part of the packet is malformed. A correct packet with the
// same sequence is delivered afterwards. docs/protocol §13.2.
func TestPacketIsDeliveredAsAWhole(t *testing.T) {
	good := wiretest.Run(wire.RunMessages, "a.b", 0, "\x03\x00one\x03\x00two")
	for _, c := range []struct {
		name string
		runs []byte
	}{
		{"a message longer than its run", wiretest.Run(wire.RunMessages, "a.b", 0, "\x03\x00one\x04\x00two")},
		{"a message longer than its run, in a later run", slices.Concat(good, wiretest.Run(wire.RunMessages, "c", 0, "\x05\x00four"))},
		{"a message longer than its run, in a run of an unwanted topic", slices.Concat(good, wiretest.Run(wire.RunMessages, "other", 0, "\x00"))},
		{"a fragment without bytes", slices.Concat(good, wiretest.Run(wire.RunFragment, "c", 0, "\x10\x00\x00\x00\x00\x00\x00\x00"))},
		{"a fragment beyond its message", slices.Concat(good, wiretest.Run(wire.RunFragment, "c", 0, "\x02\x00\x00\x00\x00\x00\x00\x00abc"))},
		{"half a run header", slices.Concat(good, []byte{1, 2, 3})},
	} {
		for _, first := range []bool{true, false} { // in a new stream, and in an existing one
			var packets [][]byte
			seq := uint64(0)
			if !first {
				packets, seq = append(packets, wiretest.Data(0, nil)), 1
			}
			got, stats := deliver(t, append(packets, wiretest.Data(seq, c.runs))...)
			if len(got) != 0 || stats.Malformed != 1 {
				t.Errorf("%s: delivered %q, want nothing; %d malformed packets, want 1", c.name, got, stats.Malformed)
			}
			got, _ = deliver(t, append(packets, wiretest.Data(seq, c.runs), wiretest.Data(seq, good))...)
			if !slices.Equal(got, []string{"one", "two"}) {
				t.Errorf("%s: delivered %q of the correct packet after it, want one and two", c.name, got)
			}
		}
	}
}

// FuzzPacketIsDeliveredAsAWhole passes arbitrary runs to a receiver, which must deliver all messages of wanted topics, or
// none.
func FuzzPacketIsDeliveredAsAWhole(f *testing.F) {
	good := wiretest.Run(wire.RunMessages, "a.b", 0, "\x03\x00one\x03\x00two")
	f.Add(good)
	f.Add(slices.Concat(good, wiretest.Run(wire.RunMessages, "c", 0, "\x04\x00four")))
	f.Add(slices.Concat(good, wiretest.Run(wire.RunMessages, "a.b", 2, "\x05\x00three"), make([]byte, 9)))
	f.Add(wiretest.Run(wire.RunMessages, "a.b", 0, "\x03\x00one\x04\x00two"))
	f.Add(slices.Concat(good, wiretest.Run(wire.RunMessages, "c", 0, "\x01")))
	f.Add(slices.Concat(wiretest.Index(wire.IndexBegins, 0, 42, 1), wiretest.Run(wire.RunTopic, "c", 0, "c"), wiretest.Index(wire.IndexEnds, 1)))
	f.Add(wiretest.Run(wire.RunFragment, "c", 0, "\x02\x00\x00\x00\x00\x00\x00\x00ab"))
	f.Fuzz(func(t *testing.T, runs []byte) {
		if len(runs) > 512-wire.DataHeaderLen {
			return
		}
		got, stats := deliver(t, wiretest.Data(0, runs))
		want, parts, valid := messagesOf(runs)
		switch {
		case !valid && (len(got) != 0 || stats.Malformed+stats.Unreadable != 1):
			t.Errorf("delivered %q of an invalid packet, want nothing; counted %d invalid packets, want 1", got, stats.Malformed+stats.Unreadable)
		case valid && (!parts && !slices.Equal(got, want) || stats.Malformed+stats.Unreadable != 0):
			t.Errorf("delivered %q, want %q; counted %d invalid packets, want 0", got, want, stats.Malformed+stats.Unreadable)
		}
	})
}

// messagesOf parses runs by docs/protocol, independently of package wire. It returns the messages of wholeTopics with
// plausible numbers, whether there are other parts of those topics, and whether all runs are valid.
func messagesOf(b []byte) (messages []string, parts, valid bool) {
	next := make(map[uint64]uint64)
	for _, name := range wholeTopics {
		next[wire.TopicID(name)] = 0
	}
	for len(b) > 0 && b[0] != 0 {
		if len(b) < 20 || b[0] > 5 {
			return nil, false, false
		}
		kind, n, topic, number := b[0], int(binary.LittleEndian.Uint16(b[2:])), binary.LittleEndian.Uint64(b[4:]), binary.LittleEndian.Uint64(b[12:])
		if number >= 1<<62 || 20+n > len(b) {
			return nil, false, false
		}
		body := b[20 : 20+n]
		b = b[20+n:]
		from, wanted := next[topic]
		// A number may skip fewer messages than one packet can have held (docs/protocol §10.7).
		delivered := wanted && number >= from && (number == from || (number-from-1)/32719 == 0)
		if kind == 3 {
			if len(body) == 0 || len(body) > 255 {
				return nil, false, false
			}
			parts = parts || wanted // the name may be another topic's
			continue
		}
		if kind == 4 { // state, only for subscribers that begin with it
			if len(body) < 8 {
				return nil, false, false
			}
			continue
		}
		if kind == 5 { // of an index round
			if len(body) < 4 || len(body)%12 != 4 {
				return nil, false, false
			}
			continue
		}
		if kind == 2 {
			if len(body) <= 8 {
				return nil, false, false
			}
			total, offset := uint64(binary.LittleEndian.Uint32(body)), uint64(binary.LittleEndian.Uint32(body[4:]))
			if total > 16<<20 || offset+uint64(len(body)-8) > total {
				return nil, false, false
			}
			if delivered && offset == 0 && int(total) == len(body)-8 && total <= 1<<20 {
				messages = append(messages, string(body[8:]))
				next[topic] = number + 1
				continue
			}
			parts = parts || wanted
			continue
		}
		if delivered {
			next[topic] = number
		}
		for len(body) > 0 {
			if len(body) < 2 || 2+int(binary.LittleEndian.Uint16(body)) > len(body) {
				return nil, false, false
			}
			m := body[2 : 2+int(binary.LittleEndian.Uint16(body))]
			body = body[2+len(m):]
			if delivered {
				messages = append(messages, string(m))
				next[topic]++
			}
		}
	}
	return messages, parts, true
}

// subscriber reads each stream of a receiver for topic a.b.
type subscriber struct {
	Delivers []string
	Gaps     [][2]uint64
}

func (s *subscriber) open(st *reliable.Stream) Output {
	rd := NewReader(st.Start(), wire.MaxMessage)
	rd.Want(wire.TopicID("a.b"), "a.b", nil)
	return sink{func(e *reliable.Event) {
		var it Item
		for rd.Take(e); nextOf(rd, &it); {
			if it.Gap() {
				s.Gaps = append(s.Gaps, [2]uint64{it.Number, it.Lost})
			} else {
				s.Delivers = append(s.Delivers, hex.EncodeToString(it.Data))
			}
		}
	}, rd.TakeNote}
}
