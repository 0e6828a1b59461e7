package events

import (
	"errors"
	"slices"
	"testing"

	"github.com/fanfaremq/fanfare/transport"
)

func TestQueueKeepsRemainingEvents(t *testing.T) {
	var q Queue
	for g := range 5 {
		q.Post(transport.Event{Group: g})
	}
	var got []int
	for q.Pending() {
		part := q.Take(make([]transport.Event, 0, 2))
		if len(part) == 0 {
			t.Fatal("pending, but no event returned")
		}
		for _, ev := range part {
			got = append(got, ev.Group)
		}
	}
	for g, have := range got {
		if have != g {
			t.Fatalf("events in the order %v", got)
		}
	}
	if len(got) != 5 {
		t.Fatalf("%d events, want 5", len(got))
	}
	if left := q.Take(make([]transport.Event, 0, 2)); len(left) != 0 {
		t.Fatalf("an empty queue returned %v, want none", left)
	}
}

func TestOnlyFirstAndLastSenderAreReported(t *testing.T) {
	var q Queue
	if !q.SenderOpened(3) || q.SenderOpened(3) {
		t.Fatal("first sender not recognised")
	}
	q.SenderClosed(3)
	q.SenderClosed(3)
	got := q.Take(make([]transport.Event, 0, 8))
	if len(got) != 2 || got[0].State != transport.Joined || got[1].State != transport.Left {
		t.Fatalf("events %+v, want joined and left", got)
	}
}

func TestSendersLostAndJoined(t *testing.T) {
	var q Queue
	for _, g := range []int{5, 2, 2, 9} {
		q.SenderOpened(g)
	}
	q.SenderClosed(9)
	q.Take(make([]transport.Event, 0, 8))
	why := errors.New("unplugged")
	q.SendersLost(why)
	if q.SenderOpened(7) {
		t.Error("a sender is reported as joined while senders are lost")
	}
	q.SenderClosed(5)
	q.SendersJoined()
	want := []transport.Event{
		{Group: 2, Role: transport.RoleSender, State: transport.Lost, Err: why},
		{Group: 5, Role: transport.RoleSender, State: transport.Lost, Err: why},
		{Group: 5, Role: transport.RoleSender, State: transport.Left},
		{Group: 2, Role: transport.RoleSender, State: transport.Joined},
		{Group: 7, Role: transport.RoleSender, State: transport.Joined},
	}
	if got := q.Take(make([]transport.Event, 0, 8)); !slices.Equal(got, want) {
		t.Errorf("events %+v, want %+v", got, want)
	}
}
