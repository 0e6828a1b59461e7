package topics

import (
	"fmt"
	"slices"
	"testing"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// A topic run shows how many messages of a topic are missing. If no packet was lost since the topic's last message, the
// publisher is at fault. docs/protocol §9.7, §10.3.
func TestTopicRunsOnFault(t *testing.T) {
	const x = 1
	first := func(rd *Reader) { rd.Packet(run(nil, x, 0, 1, 1)) }
	skip := func(rd *Reader) { rd.Skip(5, 1, events.CauseGone) }
	later := func(rd *Reader) { // the reader has it from its first message on
		rd.Drop(x)
		rd.Want(x, "x", nil)
		rd.Whole(x)
	}
	for _, c := range []struct {
		name   string
		before []func(rd *Reader)
		number uint64
		last   Item // the item that the topic run causes
		faults []events.Fault
	}{
		{"as many as delivered", []func(*Reader){first}, 2, Item{}, nil},
		{"more than delivered", []func(*Reader){first}, 5, Item{Number: 2, Lost: 3, Cause: events.CauseMisnumbered}, []events.Fault{events.FaultAnnounced}},
		{"some, none delivered", nil, 5, Item{Lost: 5, Cause: events.CauseMisnumbered}, []events.Fault{events.FaultAnnounced}},
		{"more than delivered, packets lost", []func(*Reader){first, skip}, 5, Item{Number: 2, Lost: 3, Cause: events.CauseGone}, nil},
		{"packets lost before the last topic run", []func(*Reader){first, skip, func(rd *Reader) { rd.Packet(stated(nil, x, "x", 2)) }}, 5,
			Item{Number: 2, Lost: 3, Cause: events.CauseMisnumbered}, []events.Fault{events.FaultAnnounced}},
		{"packets lost before it is wanted", []func(*Reader){skip, later}, 5, Item{Lost: 5, Cause: events.CauseGone}, nil},
		{"packets lost before the last topic run of a whole topic", []func(*Reader){skip, later, func(rd *Reader) { rd.Packet(stated(nil, x, "x", 0)); items(rd); rd.Whole(x) }}, 5,
			Item{Lost: 5, Cause: events.CauseMisnumbered}, []events.Fault{events.FaultAnnounced}},
		{"as many as the lost packet can have held", []func(*Reader){first, skip}, 2 + 2*maxMessages, Item{Number: 2, Lost: 2 * maxMessages, Cause: events.CauseGone}, nil},
		{"more than the lost packet can have held", []func(*Reader){first, skip}, 3 + 2*maxMessages,
			Item{Number: 2, Unknown: true, Cause: events.CauseMisnumbered}, []events.Fault{events.FaultAnnounced}},
		{"far more than lost packets can have held", []func(*Reader){first, skip}, 1 << 39,
			Item{Number: 2, Unknown: true, Cause: events.CauseMisnumbered}, []events.Fault{events.FaultAnnounced}},
	} {
		rd := NewReader(0, 100)
		rd.Want(x, "x", nil)
		var faults []events.Fault
		rd.OnFault(func(err *events.FaultError) { faults = append(faults, err.Fault) })
		for _, do := range c.before {
			do(rd)
			items(rd)
		}
		rd.Packet(stated(nil, x, "x", c.number))
		var it Item
		if !rd.Next(&it) {
			it = Item{}
		}
		it.Topic = nil
		if it.Number != c.last.Number || it.Lost != c.last.Lost || it.Unknown != c.last.Unknown || it.Cause != c.last.Cause || !slices.Equal(faults, c.faults) {
			t.Errorf("%s: item %+v, want %+v; faults %v, want %v", c.name, it, c.last, faults, c.faults)
		}
		if it.Unknown { // a forged number does not affect later messages
			rd.Packet(run(nil, x, 3, 1))
			if got := items(rd); !slices.Equal(got, []string{"x:lost 2+1", "x:3"}) {
				t.Errorf("%s: then items %v, want x:lost 2+1 and x:3", c.name, got)
			}
		}
	}
}

// A listing accounts for the losses that it covers: all of the reader's, from the first one on. Others are an unknown
// gap at the end, and are to be asked for. docs/protocol §9.7.
func TestListingsCoverLosses(t *testing.T) {
	gap := func(seq, count uint64) reliable.Event {
		return reliable.Event{Kind: reliable.EventGap, Seq: seq, Count: count, Cause: events.CauseGone}
	}
	listed := func(since, begun uint64) Event {
		return Event{Kind: EventListed, Listing: Listing{Since: since, Begun: begun}}
	}
	const none, unknown = "[]", "[ gap 0+0]"
	for _, c := range []struct {
		name     string
		start    uint64
		missed   [2]uint64 // arguments of Missed, before the events
		from     uint64    // topic x begins with message from - 1; 0: with any
		events   []any
		lostFrom uint64 // 99: nothing
		want     string // items at the end
	}{
		{name: "no loss", start: 10, lostFrom: 99, want: none},
		{"no listing", 10, [2]uint64{}, 0, []any{gap(20, 3)}, 20, unknown},
		{"the whole loss", 10, [2]uint64{}, 0, []any{gap(20, 3), listed(20, 23)}, 99, none},
		{"since a packet of the loss", 10, [2]uint64{}, 0, []any{gap(20, 3), listed(21, 30)}, 20, unknown},
		{"begun within the loss", 10, [2]uint64{}, 0, []any{gap(20, 3), listed(0, 22)}, 20, unknown},
		{"before the loss", 10, [2]uint64{}, 0, []any{listed(0, 30), gap(20, 3)}, 20, unknown},
		{"only the second loss", 10, [2]uint64{}, 0, []any{gap(12, 1), gap(20, 3), listed(20, 30)}, 12, unknown},
		{"only the first loss", 10, [2]uint64{}, 0, []any{gap(12, 1), gap(20, 3), listed(12, 20)}, 12, unknown},
		{"both losses", 10, [2]uint64{}, 0, []any{gap(12, 1), gap(20, 3), listed(12, 23)}, 99, none},
		{"one after the other", 10, [2]uint64{}, 0, []any{gap(12, 1), listed(12, 15), gap(20, 3)}, 20, unknown},
		{"one after the other, both", 10, [2]uint64{}, 0, []any{gap(12, 1), listed(12, 15), gap(20, 3), listed(20, 25)}, 99, none},
		{"missed packets", 10, [2]uint64{23, 3}, 0, []any{listed(20, 23)}, 99, none},
		{"all but one missed packet", 10, [2]uint64{23, 3}, 0, []any{listed(20, 22)}, 20, unknown},
		{"a loss before missed packets", 10, [2]uint64{25, 3}, 0, []any{gap(20, 1), listed(22, 30)}, 20, unknown},
		{"more missed packets than there are before", 10, [2]uint64{5, 9}, 0, []any{listed(1, 30)}, 0, unknown},
		{"packets lost at the end", 10, [2]uint64{}, 0, []any{reliable.Event{Kind: reliable.EventEnd, Seq: 30, Count: 2}}, 99, unknown},
		{"losses before the publisher was lost", 10, [2]uint64{}, 0, []any{gap(20, 3), reliable.Event{Kind: reliable.EventDown}}, 99, unknown},
		{"a topic that is to begin", 10, [2]uint64{}, 5, nil, 99, unknown},
		{"all topics", 10, [2]uint64{}, 5, []any{listed(10, 12)}, 99, none},
		{"not all topics", 10, [2]uint64{}, 5, []any{listed(11, 12)}, 99, unknown},
		{"all topics, missed in part", 10, [2]uint64{23, 3}, 5, []any{listed(0, 22), listed(20, 30)}, 99, unknown},
		{"a topic of a stream from packet 0", 0, [2]uint64{}, 5, nil, 99, none},
	} {
		rd := NewReader(c.start, 100)
		rd.Want(1, "x", nil)
		if c.from > 0 {
			rd.From(1, c.from-1)
		}
		if c.missed[1] > 0 {
			rd.Missed(c.missed[0], c.missed[1], events.CauseSlowConsumer)
		}
		got := itemsOf(rd, c.events...)
		if lost := rd.LostFrom(99); lost != c.lostFrom {
			t.Errorf("%s: losses from %d on are not accounted for, want %d", c.name, lost, c.lostFrom)
		}
		if got = append(got, itemsOf(rd, reliable.Event{Kind: reliable.EventEnd})...); fmt.Sprint(got) != c.want {
			t.Errorf("%s: items %v, want %s", c.name, got, c.want)
		}
	}
}

// A reader drops a topic of which the publisher uses the id for another name. Names that do not belong to the id, and
// those of refused topics, count for nothing. docs/protocol §9.4.
func TestReaderCollisions(t *testing.T) {
	id := wire.TopicID("other")
	for _, c := range []struct {
		name, stated    string
		trusted, report bool
		want            []string
	}{
		{"another topic", "other", true, true, nil},
		{"another topic, refused", "other", false, false, nil},
		{"a wrong name", "wrong", true, false, []string{"x:0"}},
		{"the name", "x", true, false, []string{"x:lost 0+2"}},
	} {
		rd := NewReader(0, 100)
		if !c.trusted {
			rd.Trust(7, func() TopicTrust { return new(allows) })
		}
		rd.Want(id, "x", nil)
		var reports []events.TopicCollisionError
		rd.OnCollision(func(err *events.TopicCollisionError) { reports = append(reports, *err) })
		rd.Packet(run(stated(nil, id, c.stated, 2), id, 0, 1))
		got := items(rd)
		want := []events.TopicCollisionError{{ID: events.ID(id), Known: "x", Other: "other"}}
		if !slices.Equal(got, c.want) || rd.Wants(id) == c.report || c.report != slices.Equal(reports, want) {
			t.Errorf("%s: items %v, want %v; reports %v, want one: %v", c.name, got, c.want, reports, c.report)
		}
	}
}

// A reader reports once why it may miss topics. docs/protocol §9.6.
func TestReaderIsBlind(t *testing.T) {
	rd := NewReader(0, 100)
	rd.Blind(events.CauseTooManyTopics)
	var it Item
	if rd.Through() || !rd.Next(&it) || it.Topic != nil || !it.Unknown || it.Cause != events.CauseTooManyTopics || rd.Next(&it) {
		t.Errorf("item %+v, want one unknown gap because of %v", it, events.CauseTooManyTopics)
	}
}

// A number that no lost packet explains is accepted when a later packet continues from it. docs/protocol §10.7.
func TestImplausibleNumbers(t *testing.T) {
	const x, y, far = 1, 2, 1 << 39
	type step struct {
		packet []byte
		lost   uint64
		want   []string
	}
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"a far number in one packet", []step{
			{packet: run(nil, x, 0, 1), want: []string{"x:0"}},
			{packet: run(nil, x, far, 1)},
			{packet: run(nil, x, 1, 1), want: []string{"x:1"}},
		}},
		{"another topic in the packet of a far number", []step{
			{packet: run(run(nil, x, far, 1), y, 0, 1), want: []string{"y:0"}},
			{packet: run(nil, x, 0, 1), want: []string{"x:0"}},
		}},
		{"two far numbers in one packet", []step{
			{packet: run(run(nil, x, far, 1), x, far+1, 1)},
			{packet: run(nil, x, 0, 1), want: []string{"x:0"}},
		}},
		{"consecutive far numbers in two packets", []step{
			{packet: run(nil, x, 0, 1), want: []string{"x:0"}},
			{packet: run(nil, x, far, 1)},
			{packet: run(nil, x, far+1, 1), want: []string{"x:lost 1+549755813888", "x:549755813889"}},
		}},
		{"far numbers that are not consecutive", []step{
			{packet: run(nil, x, 0, 1), want: []string{"x:0"}},
			{packet: run(nil, x, far, 1)},
			{packet: run(nil, x, far/2, 1)},
			{packet: run(nil, x, far, 1)},
			{packet: run(nil, x, 1, 1), want: []string{"x:1"}},
		}},
		{"as many messages as lost packets can have held", []step{
			{packet: run(nil, x, 0, 1), want: []string{"x:0"}},
			{lost: 2},
			{packet: run(nil, x, 1+3*maxMessages, 1), want: []string{"x:lost 1+98157", "x:98158"}},
		}},
		{"one message more than lost packets can have held", []step{
			{packet: run(nil, x, 0, 1), want: []string{"x:0"}},
			{lost: 2},
			{packet: run(nil, x, 2+3*maxMessages, 1)},
		}},
	} {
		rd := NewReader(0, 100)
		rd.Want(x, "x", nil)
		rd.Want(y, "y", nil)
		for i, s := range c.steps {
			if s.lost > 0 {
				rd.Skip(5, s.lost, events.CauseGone)
			} else {
				rd.Packet(s.packet)
			}
			if got := items(rd); !slices.Equal(got, s.want) {
				t.Errorf("%s, step %d: items %v, want %v", c.name, i, got, s.want)
			}
		}
	}
}

// A topic that its publisher has forgotten returns with a higher multiple of Returning: without a gap, unless packets
// were lost that no round covers. docs/protocol §10.9.
func TestReturningTopics(t *testing.T) {
	const x, back = 1, wire.Returning
	lost := func(rd *Reader) { rd.Skip(5, 1, events.CauseGone) }
	listed := func(since, forgotten uint64) func(*Reader) {
		return func(rd *Reader) { rd.Listed(Listing{Since: since, Begun: 9, Forgotten: forgotten}) }
	}
	packet := func(runs []byte) func(*Reader) { return func(rd *Reader) { rd.Packet(runs) } }
	begin, returns := packet(run(nil, x, 0, 1, 1)), packet(run(stated(nil, x, "x", back), x, back, 1))
	for _, c := range []struct {
		name string
		do   []func(*Reader)
		want []string
	}{
		{"nothing lost", []func(*Reader){begin, returns}, []string{"x:0", "x:1", "x:1099511627776"}},
		{"without messages before", []func(*Reader){returns}, []string{"x:1099511627776"}},
		{"a loss before", []func(*Reader){begin, lost, returns}, []string{"x:0", "x:1", "x:unknown before 2", "x:1099511627776"}},
		{"a loss that a round covers", []func(*Reader){begin, lost, listed(5, 0), returns}, []string{"x:0", "x:1", "x:1099511627776"}},
		{"a loss that a round covers in part", []func(*Reader){begin, lost, listed(5, 6), returns}, []string{"x:0", "x:1", "?:unknown before 0", "x:1099511627776"}},
		{"a loss behind all forgotten messages", []func(*Reader){begin, lost, listed(5, 5), returns}, []string{"x:0", "x:1", "x:1099511627776"}},
		{"its topic run is lost", []func(*Reader){begin, lost, packet(run(nil, x, back+3, 1))}, []string{"x:0", "x:1", "x:unknown before 2", "x:1099511627779"}},
		{"without a topic run", []func(*Reader){begin, packet(run(nil, x, back, 1)), packet(run(nil, x, 2, 1))}, []string{"x:0", "x:1", "x:2"}},
		{"a number that no return has", []func(*Reader){begin, packet(stated(nil, x, "x", 7*back+5)), packet(run(nil, x, 2, 1))}, []string{"x:0", "x:1", "x:unknown before 2", "x:2"}},
		{"behind a position", []func(*Reader){func(rd *Reader) { rd.From(x, 3) }, returns}, []string{"x:unknown before 3", "x:1099511627776"}},
		{"messages that follow", []func(*Reader){begin, returns, lost, packet(run(nil, x, back+4, 1))}, []string{"x:0", "x:1", "x:1099511627776", "x:lost 1099511627777+3", "x:1099511627780"}},
	} {
		rd := NewReader(0, 100)
		rd.Want(x, "x", nil)
		var got []string
		for _, do := range c.do {
			do(rd)
			got = append(got, items(rd)...)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: items %q, want %q", c.name, got, c.want)
		}
	}
}
