package topics

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/internal/wiretest"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// A reader reports wrong numbers of a publisher, and nothing of correct ones. docs/protocol §10.3.
func TestReaderReportsFaults(t *testing.T) {
	messages := func(number uint64, texts ...string) []byte {
		body := ""
		for _, m := range texts {
			body += string([]byte{byte(len(m)), 0}) + m
		}
		return wiretest.Run(wire.RunMessages, "a.b", number, body)
	}
	fragment := func(number uint64, total, offset int, part string) []byte {
		return wiretest.Run(wire.RunFragment, "a.b", number, string([]byte{byte(total), 0, 0, 0, byte(offset), 0, 0, 0})+part)
	}
	lost := []byte(nil) // stands for a lost packet
	for _, c := range []struct {
		name    string
		packets [][]byte
		faults  []events.Fault
		got     string       // messages; [n] for a gap of n
		cause   events.Cause // of the last gap
	}{
		{"in order", [][]byte{messages(0, "a", "b"), messages(2, "c")}, nil, "a b c", 0},
		{"a repeated number", [][]byte{messages(0, "a", "b"), messages(1, "x")}, []events.Fault{events.FaultNumbers}, "a b", 0},
		{"overlap", [][]byte{messages(0, "a", "b"), messages(1, "x", "y"), messages(2, "c")}, []events.Fault{events.FaultNumbers}, "a b c", 0},
		{"hole", [][]byte{messages(0, "a"), messages(3, "b")}, []events.Fault{events.FaultHole}, "a [2] b", events.CauseMisnumbered},
		{"hole within a packet", [][]byte{slices.Concat(messages(0, "a"), messages(2, "b"))}, []events.Fault{events.FaultHole}, "a [1] b", events.CauseMisnumbered},
		{"hole because of a loss", [][]byte{messages(0, "a"), lost, messages(3, "b")}, nil, "a [2] b", events.CauseDeadline},
		{"fragments", [][]byte{fragment(0, 4, 0, "ab"), fragment(0, 4, 2, "cd"), messages(1, "e")}, nil, "abcd e", 0},
		{"hole between fragments", [][]byte{fragment(0, 6, 0, "ab"), fragment(0, 6, 4, "ef"), messages(1, "g")}, []events.Fault{events.FaultFragments}, "[1] g", events.CauseMisnumbered},
		{"fragments that overlap", [][]byte{fragment(0, 6, 0, "ab"), fragment(0, 6, 1, "bc"), fragment(0, 6, 2, "cdef")}, []events.Fault{events.FaultFragments}, "[1]", events.CauseMisnumbered},
		{"another total", [][]byte{fragment(0, 6, 0, "ab"), fragment(0, 4, 2, "cd")}, []events.Fault{events.FaultFragments}, "[1]", events.CauseMisnumbered},
		{"no first fragment", [][]byte{messages(0, "a"), fragment(1, 4, 2, "cd")}, []events.Fault{events.FaultFragments}, "a [1]", events.CauseMisnumbered},
		{"a fragment lost", [][]byte{fragment(0, 6, 0, "ab"), lost, fragment(0, 6, 4, "ef"), messages(1, "g")}, nil, "[1] g", events.CauseDeadline},
		{"the first fragment lost", [][]byte{messages(0, "a"), lost, fragment(1, 6, 2, "cd"), fragment(1, 6, 4, "ef")}, nil, "a [1]", events.CauseDeadline},
		{"no first fragment behind a topic run", [][]byte{wiretest.Run(wire.RunTopic, "a.b", 0, "a.b"), fragment(0, 4, 2, "cd")}, []events.Fault{events.FaultFragments}, "[1]", events.CauseMisnumbered},
		{"an abandoned message", [][]byte{fragment(0, 6, 0, "ab"), messages(0, "a"), fragment(1, 2, 0, "bc")}, nil, "a bc", 0},
		{"too long", [][]byte{fragment(0, 200, 0, "ab"), fragment(0, 200, 2, strings.Repeat("x", 198)), messages(1, "a")}, nil, "[1] a", events.CauseTooLarge},
	} {
		rd := NewReader(0, 100)
		rd.Want(wire.TopicID("a.b"), "a.b", nil)
		var reported []events.Fault
		rd.OnFault(func(err *events.FaultError) {
			reported = append(reported, err.Fault)
			if err.Topic != "a.b" || !errors.Is(err, events.ErrPublisherFault) {
				t.Errorf("%s: fault %v, want a publisher fault of topic a.b", c.name, err)
			}
		})
		var got []string
		var cause events.Cause
		for _, runs := range c.packets {
			if runs == nil {
				rd.Skip(1, 1, events.CauseDeadline)
			} else {
				rd.Packet(runs)
			}
			for it := (Item{}); nextOf(rd, &it); {
				if it.Gap() {
					got, cause = append(got, "["+string('0'+rune(it.Lost))+"]"), it.Cause
				} else {
					got = append(got, string(it.Data))
				}
			}
		}
		if !slices.Equal(reported, c.faults) || strings.Join(got, " ") != c.got || cause != c.cause {
			t.Errorf("%s: faults %v, want %v; items %q, want %q; cause %v, want %v", c.name, reported, c.faults, strings.Join(got, " "), c.got, cause, c.cause)
		}
	}
}
