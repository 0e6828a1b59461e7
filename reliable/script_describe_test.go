package reliable

import (
	"fmt"
	"testing"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// describe returns a packet's kind, its type or "repair", and its content.
func describe(t *testing.T, b []byte) (kind string, line event) {
	h, err := wire.ParseHeader(b)
	if err != nil {
		t.Fatal(err)
	}
	kind = h.Type.String()
	text := kind
	switch h.Type {
	case wire.TypeData:
		d, e := wire.ParseData(b)
		err = e
		if h.Flags&wire.FlagRepair != 0 {
			kind = "repair"
		}
		text = kind
		line = event{first: d.Seq, last: d.Seq, numbered: true, texts: texts(d.Runs)}
	case wire.TypeHeartbeat:
		hb, e := wire.ParseHeartbeat(b)
		err = e
		text = fmt.Sprintf("heartbeat, lead %d", hb.Lead)
		if hb.Trail > 0 {
			text += fmt.Sprintf(", trail %d", hb.Trail)
		}
		if h.Flags&wire.FlagEnd != 0 {
			text += ", END"
		}
		if h.Flags&wire.FlagSolicit != 0 {
			text += ", solicits statuses"
		}
	case wire.TypeNAK, wire.TypeNCF, wire.TypeGone:
		r, e := wire.ParseRanges(b)
		err = e
		for first, n, ok := r.Next(); ok; first, n, ok = r.Next() {
			text += " " + interval(first, n)
		}
	case wire.TypeStatus:
		st, e := wire.ParseStatus(b)
		err = e
		text = fmt.Sprintf("status, next %d, limit %d", st.Next, st.Limit)
		if h.Flags&wire.FlagLeaving != 0 {
			text += ", leaves"
		}
	}
	if err != nil {
		t.Fatalf("%v: %v", h.Type, err)
	}
	line.head = text
	return kind, line
}

func interval(first, n uint64) string {
	if n == 1 {
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d-%d", first, first+n-1)
}

// texts returns the messages in a packet's runs, and its topic and index runs.
func texts(runs []byte) (all []string) {
	for r, rest, ok := wire.NextRun(runs); ok; r, rest, ok = wire.NextRun(rest) {
		switch r.Kind {
		case wire.RunTopic:
			continue
		case wire.RunIndex:
			if wire.IndexMarks(r.Body[0])&wire.IndexBegins != 0 {
				all = append(all, fmt.Sprintf("(index since %d)", r.Number))
			} else {
				all = append(all, fmt.Sprintf("(end of index, topics: %d)", r.Number))
			}
			continue
		}
		for m, rest, ok := wire.NextMessage(r.Body); ok; m, rest, ok = wire.NextMessage(rest) {
			all = append(all, string(m))
		}
	}
	return all
}

// The following methods print the events of a subscriber.

func (s *scriptSubscriber) StreamUp(st *Stream) {
	s.x.print("  %s: publisher up, epoch %d, from packet %d", s.name, st.Epoch, st.Start())
}

// wanting is a message layer that wants topic a.b.
type wanting struct{ opaque }

func (wanting) Status(_ *wire.Status, want bool) (flags wire.Flags, topics []uint64, all bool) {
	return 0, []uint64{wire.TopicID("a.b")}, want
}

// scriptOutput prints a stream's events.
type scriptOutput struct {
	*recorder
	s *scriptSubscriber
}

func (s *scriptSubscriber) Open(_ Instant, st *Stream) (Output, Contents) {
	return scriptOutput{&recorder{log: &s.log, st: st}, s}, wanting{}
}

func (o scriptOutput) Deliver(e *Event) (kept bool) {
	s := o.s
	if e.Kind == EventPacket {
		s.x.add(event{head: "  " + s.name + ": delivers", texts: texts(PacketData(e.Packet))})
	} else if e.Count > 0 {
		s.x.print("  %s: gap, %s: %v", s.name, interval(e.Seq, e.Count), e.Cause)
	}
	return o.recorder.Deliver(e)
}

func (s *scriptSubscriber) StreamDown(st *Stream, cause events.Cause) {
	what := "ended"
	if cause != events.CauseNone {
		what = "down: " + cause.String()
	}
	s.x.print("  %s: publisher, epoch %d, %s", s.name, st.Epoch, what)
}
