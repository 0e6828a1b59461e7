package pubsub

import (
	"reflect"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// notDrops are the counters of stats.Bus that belong to no cause: they do not count packets dropped or lost on the
// way, or count them a second time.
const notDrops = `
Transport: PacketsSent BytesSent SendCalls SendBusy PacketsReceived BytesReceived ReceiveCalls ReceiveErrors LendRefused
	PeersRefused GSORefused Joins JoinsFailed MembershipsLost Unclaimed SendOnlyRefused InjectedDelay ReceiveQueueFull
Bus: RepliesFailed RefusedMessages ReplacedMessages
Group: DroppedRuns UnwantedRuns UnwantedBytes Packets Bytes Repaired Late Duplicates Unstarted Lost Missing NAKs NAKPackets
	NCFs Statuses Heartbeats History StateJoins StateFailed Streams StreamsEnded StreamsLost Restarts Own Namesakes Stale Collisions NamesRefused
	Replies ReplyPackets RepliesRecalled RepliesUnknown RepliesDropped Packed PackedBytes UnpackedBytes ClocksApart
Publication: Lead MessagesSent PacketsSent BytesSent RepairsSent HeartbeatsSent IndexRounds NCFSent GoneSent ControlSent ControlUnsent
	NAKs NAKPackets NAKRefused NAKDuplicate NAKGone Statuses StatusesStale ReceiversJoined ReceiversLeft ReceiversBehind ReceiversSilent
	ReceiversReleased ReceiversRefused ReceiversLost FlowBlocked RateBlocked StateRounds StateBytes PacketsPacked BytesUnpacked
	Requests Replies ReplyPackets RepliesDuplicate RepliesLate RepliesRefused Recalled
`

// counters yields the counters of v and of its nested structs, named "Struct.Field" after the outermost struct that
// is not embedded.
func counters(v reflect.Value, of string, yield func(name string, f reflect.Value)) {
	for i := range v.NumField() {
		f, field := v.Field(i), v.Type().Field(i)
		switch {
		case field.Type.Kind() == reflect.Struct && field.Anonymous:
			counters(f, of, yield)
		case field.Name == "Transport":
			counters(f, field.Name, yield)
		case f.Kind() == reflect.Uint64:
			yield(of+"."+field.Name, f)
		}
	}
}

// Every counter of the statistics belongs to exactly one cause, or is in notDrops.
func TestCausesCountEachDropOnce(t *testing.T) {
	none := make(map[string]bool)
	for _, line := range strings.Split(strings.ReplaceAll(notDrops, "\n\t", " "), "\n") {
		of, names, _ := strings.Cut(line, ":")
		for _, name := range strings.Fields(names) {
			none[of+"."+name] = true
		}
	}
	var s stats.Bus
	s.Groups, s.Publications = make([]stats.Group, 1), make([]stats.Publication, 1)
	check := func(name string, f reflect.Value) {
		f.SetUint(1)
		if name == "Transport.ReceiveQueueEmpty" {
			s.Transport.ReceiveOverflow = 1 // ReceiveQueueEmpty is a part of it
		}
		var found []string
		for _, c := range Causes() {
			for _, count := range []func(*stats.Bus) (uint64, bool){c.Dropped, c.Lost} {
				if n, _ := count(&s); n > 0 {
					found = append(found, c.Label)
				}
			}
		}
		s.Transport.ReceiveOverflow = 0
		f.SetUint(0)
		if want := map[bool]int{true: 0, false: 1}[none[name]]; len(found) != want {
			t.Errorf("%s is counted as %q, want %d causes", name, found, want)
		}
		delete(none, name)
	}
	counters(reflect.ValueOf(&s).Elem(), "Bus", check)
	counters(reflect.ValueOf(&s.Groups[0]).Elem(), "Group", check)
	counters(reflect.ValueOf(&s.Publications[0]).Elem(), "Publication", check)
	for name := range none {
		t.Errorf("there is no counter %s", name)
	}
}

// Every cause of a gap has a row, and every row has a meaning and a remedy.
func TestCausesAreComplete(t *testing.T) {
	labels, gaps := make(map[string]bool), make(map[events.Cause]bool)
	for _, c := range Causes() {
		if labels[c.Label] || c.Label == "" || strings.ToLower(c.Label) != c.Label || strings.Contains(c.Label, " ") {
			t.Errorf("label %q occurs twice or is not one lower-case word", c.Label)
		}
		labels[c.Label] = true
		if c.Gap != 0 && gaps[c.Gap] {
			t.Errorf("%v has two rows", c.Gap)
		}
		gaps[c.Gap] = true
		if _, counted := c.Dropped(&stats.Bus{}); !counted && c.Gap == 0 {
			t.Errorf("%s counts neither packets nor gaps", c.Label)
		}
		if !strings.HasSuffix(c.Help, ".") || !strings.HasSuffix(c.Remedy, ".") {
			t.Errorf("%s: meaning or remedy is not a sentence", c.Label)
		}
	}
	for c := events.CauseNone + 1; c < events.NumCauses; c++ {
		if !gaps[events.Cause(c)] || events.Cause(c).Label() == "" {
			t.Errorf("cause %v has no row", events.Cause(c))
		}
	}
	if events.Cause(0).Label() != "" {
		t.Error("CauseNone has a label")
	}
}

// The overflow cause names queue= as the remedy for fabrics in memory, which have no sockets.
func TestOverflowRemedyForFabricsInMemory(t *testing.T) {
	for _, c := range Causes() {
		if c.Label != "socket_overflow" {
			continue
		}
		queue, _, _ := strings.Cut(c.Remedy, "rmem_max")
		for _, scheme := range []string{"mem://", "shm://"} {
			if !strings.Contains(c.Help, scheme) || !strings.Contains(queue, scheme) || !strings.Contains(queue, "raise queue= ") {
				t.Errorf("%s: help %q and remedy %q, want the scheme and queue= in them", scheme, c.Help, c.Remedy)
			}
		}
	}
}
