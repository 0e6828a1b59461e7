package topics

import (
	"slices"
	"testing"

	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// A total shows how many messages of a topic are missing. If no packet was lost since the topic's last message, the
// publisher is at fault. docs/protocol §9.7, §10.3.
func TestTotalsOnFault(t *testing.T) {
	const x = 1
	first := run(nil, x, 0, 1, 1)
	for _, c := range []struct {
		name   string
		steps  func(rd *Reader)
		last   Item // the item that the total causes
		faults []events.Fault
	}{
		{"as many as delivered", func(rd *Reader) { rd.Packet(first); items(rd); rd.Total(reliable.TopicTotal{ID: x, Next: 2}) }, Item{}, nil},
		{"more than delivered", func(rd *Reader) { rd.Packet(first); items(rd); rd.Total(reliable.TopicTotal{ID: x, Next: 5}) },
			Item{Number: 2, Lost: 3, Cause: events.CauseMisnumbered}, []events.Fault{events.FaultAnnounced}},
		{"some, none delivered", func(rd *Reader) { rd.Total(reliable.TopicTotal{ID: x, Next: 5}) },
			Item{Lost: 5, Cause: events.CauseMisnumbered}, []events.Fault{events.FaultAnnounced}},
		{"more than delivered, packets lost", func(rd *Reader) {
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
			t.Errorf("%s: item %+v, want %+v; faults %v, want %v", c.name, it, c.last, faults, c.faults)
		}
		if it.Unknown { // a forged total does not affect later messages
			rd.Packet(run(nil, x, 3, 1))
			if got := items(rd); !slices.Equal(got, []string{"x:lost 2+1", "x:3"}) {
				t.Errorf("%s: then items %v, want x:lost 2+1 and x:3", c.name, got)
			}
		}
	}
}

// A number that no lost packet explains is accepted when a later packet continues from it. docs/protocol §10.7.
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
			{packet: run(nil, x, far+1, 1), want: []string{"x:lost 1+2305843009213693952", "x:2305843009213693953"}},
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
				rd.Skip(s.lost, events.CauseGone)
			} else {
				rd.Packet(s.packet)
			}
			if got := items(rd); !slices.Equal(got, s.want) {
				t.Errorf("%s, step %d: items %v, want %v", c.name, i, got, s.want)
			}
		}
	}
}

// A message is accepted although the first total of its topic has an implausibly high number. docs/protocol §10.7.
func TestTotalOfUnknownTopic(t *testing.T) {
	const x = 1
	rd := NewReader(10, 100)
	rd.Want(x, "x", nil)
	rd.Total(reliable.TopicTotal{ID: x, Next: 1 << 61})
	if got := items(rd); got != nil {
		t.Errorf("after the total: items %v, want none", got)
	}
	rd.Packet(run(nil, x, 7, 1))
	if got := items(rd); !slices.Equal(got, []string{"x:7"}) {
		t.Errorf("after message 7: items %v, want x:7", got)
	}
}
