package engine

import (
	"testing"
	"time"
)

func TestSendRow(t *testing.T) {
	for _, c := range []struct {
		name       string
		gap        time.Duration
		idle, held bool
		want       int
	}{
		{"no pause", shortPause - 1, true, false, saturatedSends + 1},
		{"busy, and far apart", loopPark - 1, false, false, saturatedSends + 1},
		{"a short pause", loopPark - 1, true, false, saturatedSends - pausePrice},
		{"a long pause", loopPark, false, false, saturatedSends / 2},
		{"held up", time.Second, false, true, saturatedSends - pausePrice},
	} {
		b := batcherAt(aMinute, time.Microsecond)
		b.row.count = saturatedSends
		b.sending(aMinute.Add(c.gap), c.idle, c.held)
		row := b.sends()
		if row.count != c.want {
			t.Errorf("%s: %d sends in a row, want %d", c.name, row.count, c.want)
		}
		if row.saturated() != (c.want >= saturatedSends) {
			t.Errorf("%s: saturated is %v with %d", c.name, row.saturated(), row.count)
		}
	}
}

// The row goes on while new data is sent, and again as soon as it is after a pause: the publisher
// may only have been held up. What the loop sends, such as heartbeats and repairs, does not count.
func TestSendRowIsParked(t *testing.T) {
	b := batcherAt(aMinute, time.Microsecond)
	b.row.count = 2 * saturatedSends
	pause := aMinute.Add(loopPark)
	if b.sends().parked() != pause {
		t.Error("the loop does not leave it alone while it sends")
	}
	b.sending(pause, true, false)
	b.took(pause, pause, false)
	if b.sends().parked() != pause {
		t.Error("what the loop sends counts as the publisher's")
	}
	b.took(pause, pause+1, true)
	if row := b.sends(); row.parked() != (pause+1).Add(loopPark) || !row.saturated() {
		t.Error("one pause has ended it")
	}
}
