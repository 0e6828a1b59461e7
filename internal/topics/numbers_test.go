package topics

import (
	"slices"
	"testing"

	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// A total shows what a topic lacks. Where no packet was lost since its last message it is
// the publisher's fault.
// docs/protocol §9.7, §10.3.
func TestTotalsOnFault(t *testing.T) {
	const x = 1
	first := run(nil, x, 0, 1, 1)
	for _, c := range []struct {
		name   string
		steps  func(rd *Reader)
		last   Item // what comes of the total
		faults []events.Fault
	}{
		{"as many as came", func(rd *Reader) { rd.Packet(first); items(rd); rd.Total(reliable.TopicTotal{ID: x, Next: 2}) }, Item{}, nil},
		{"more than came", func(rd *Reader) { rd.Packet(first); items(rd); rd.Total(reliable.TopicTotal{ID: x, Next: 5}) },
			Item{Number: 2, Lost: 3, Cause: events.CauseMisnumbered}, []events.Fault{events.FaultAnnounced}},
		{"some where nothing came", func(rd *Reader) { rd.Total(reliable.TopicTotal{ID: x, Next: 5}) },
			Item{Lost: 5, Cause: events.CauseMisnumbered}, []events.Fault{events.FaultAnnounced}},
		{"more, and packets were lost", func(rd *Reader) {
			rd.Packet(first)
			items(rd)
			rd.Skip(1, events.CauseGone)
			rd.Total(reliable.TopicTotal{ID: x, Next: 5})
		},
			Item{Number: 2, Lost: 3, Cause: events.CauseGone}, nil},
		{"more than lost packets can have held", func(rd *Reader) {
			rd.Packet(first)
			items(rd)
			rd.Skip(1, events.CauseGone)
			rd.Total(reliable.TopicTotal{ID: x, Next: 1 << 61})
		}, Item{Number: 2, Unknown: true, Cause: events.CauseMisnumbered}, []events.Fault{events.FaultAnnounced}},
	} {
		rd := NewReader(0, 100)
		rd.Want(x, "x", nil)
		var faults []events.Fault
		rd.OnFault(func(err *events.FaultError) { faults = append(faults, err.Fault) })
		c.steps(rd)
		var it Item
		if !rd.Next(&it) {
			it = Item{}
		}
		it.Topic = nil
		if it.Number != c.last.Number || it.Lost != c.last.Lost || it.Unknown != c.last.Unknown || it.Cause != c.last.Cause || !slices.Equal(faults, c.faults) {
			t.Errorf("%s: %+v, want %+v; faults %v, want %v", c.name, it, c.last, faults, c.faults)
		}
		if it.Unknown { // a forged one takes nothing from what follows
			rd.Packet(run(nil, x, 3, 1))
			if got := items(rd); !slices.Equal(got, []string{"x:lost 2+1", "x:3"}) {
				t.Errorf("%s: then %v", c.name, got)
			}
		}
	}
}

// A number that no lost packet explains is accepted when a later packet goes on with it.
// docs/protocol §10.7.
func TestImplausibleNumbers(t *testing.T) {
	const x, y, far = 1, 2, 1 << 61
	type step struct {
		packet []byte
		lost   uint64
		want   []string
	}
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"one packet", []step{
			{packet: run(nil, x, 0, 1), want: []string{"x:0"}},
			{packet: run(nil, x, far, 1)},
			{packet: run(nil, x, 1, 1), want: []string{"x:1"}},
		}},
		{"another topic in its packet", []step{
			{packet: run(run(nil, x, far, 1), y, 0, 1), want: []string{"y:0"}},
			{packet: run(nil, x, 0, 1), want: []string{"x:0"}},
		}},
		{"twice in a packet", []step{
			{packet: run(run(nil, x, far, 1), x, far+1, 1)},
			{packet: run(nil, x, 0, 1), want: []string{"x:0"}},
		}},
		{"a publisher that numbers so", []step{
			{packet: run(nil, x, 0, 1), want: []string{"x:0"}},
			{packet: run(nil, x, far, 1)},
			{packet: run(nil, x, far+1, 1), want: []string{"x:lost 1+2305843009213693952", "x:2305843009213693953"}},
		}},
		{"two that do not follow each other", []step{
			{packet: run(nil, x, 0, 1), want: []string{"x:0"}},
			{packet: run(nil, x, far, 1)},
			{packet: run(nil, x, far/2, 1)},
			{packet: run(nil, x, far, 1)},
			{packet: run(nil, x, 1, 1), want: []string{"x:1"}},
		}},
		{"what lost packets can have held", []step{
			{packet: run(nil, x, 0, 1), want: []string{"x:0"}},
			{lost: 2},
			{packet: run(nil, x, 1+3*maxMessages, 1), want: []string{"x:lost 1+98157", "x:98158"}},
		}},
		{"one more", []step{
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
				rd.Skip(s.lost, events.CauseGone)
			} else {
				rd.Packet(s.packet)
			}
			if got := items(rd); !slices.Equal(got, s.want) {
				t.Errorf("%s, step %d: %v, want %v", c.name, i, got, s.want)
			}
		}
	}
}

// A total from which a topic is first known says nothing against messages that come.
// docs/protocol §10.7.
func TestTotalOfUnknownTopic(t *testing.T) {
	const x = 1
	rd := NewReader(10, 100)
	rd.Want(x, "x", nil)
	rd.Total(reliable.TopicTotal{ID: x, Next: 1 << 61})
	if got := items(rd); got != nil {
		t.Errorf("the total: %v", got)
	}
	rd.Packet(run(nil, x, 7, 1))
	if got := items(rd); !slices.Equal(got, []string{"x:7"}) {
		t.Errorf("a message: %v", got)
	}
}
