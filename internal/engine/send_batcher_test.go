package engine

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

// nobody has let any pass.
func nobody(_ []waiting, _ uint64) bool { return false }

// batcherAt returns a batcher whose last send ended at now.
func batcherAt(now reliable.Instant, cost time.Duration) *batcher {
	b := newBatcher(50 * time.Microsecond)
	b.cost, b.active, b.sent, b.row.last, b.began, b.idle = cost, now, now, now, now, now
	b.spacing.apart = cost
	return b
}

const aMinute = reliable.Instant(time.Minute)

// Messages half a send apart leave at once, others do not. To write a large one takes a while.
func TestBatcherLeaves(t *testing.T) {
	const cost = 10 * time.Microsecond
	for _, c := range []struct {
		name   string
		gap    time.Duration
		n      uint64
		passed uint64 // messages of other groups
		size   int
		want   bool
	}{
		{"idle", cost/2 + 1, 1, 0, 0, true},
		{"busy", cost / 2, 1, 0, 0, false},
		{"four in that time", 2*cost + 1, 4, 0, 0, true},
		{"five in that time", 2*cost + 1, 5, 0, 0, false},
		{"idle here, busy elsewhere", 10 * cost, 1, 100, 0, false},
		{"some elsewhere", 10 * cost, 1, 10, 0, true},
		{"just enough elsewhere", 10 * cost, 1, 19, 0, false},
		{"writing a large one", cost, 1, 0, writtenInANs * int(cost/2), false},
		{"a pause before a large one", cost + 1, 1, 0, writtenInANs * int(cost/2), true},
		{"writing four large ones", 4 * cost, 4, 0, writtenInANs * int(cost/2), false},
	} {
		b := batcherAt(aMinute, cost)
		b.early = maxEarly
		passed := func(_ []waiting, many uint64) bool { return c.passed >= many }
		if got := b.leaves(aMinute.Add(c.gap), nil, c.n, c.size, true, passed); got != c.want {
			t.Errorf("%s: leaves at once is %v, want %v", c.name, got, c.want)
		}
	}
}

// A publisher that goes round many groups in a tight loop is busy, although each group
// is sent to rarely; one that takes its time sends each message by itself.
func TestBatcherManyGroups(t *testing.T) {
	for name, c := range map[string]struct {
		apart time.Duration
		want  bool
	}{
		"tight loop":      {80 * time.Nanosecond, false},
		"50,000 a second": {20 * time.Microsecond, true},
	} {
		const groups = 1000
		b := batcherAt(aMinute, 5*time.Microsecond)
		b.early, b.idle = maxEarly, aMinute.Add(-severalAfter)
		pubs := make([]Publication, groups)
		left, now := 0, aMinute
		for i := range 10 * groups {
			now = now.Add(c.apart)
			if b.leaves(now, &pubs[i%groups], 1, 64, i < groups, nobody) {
				left++
			}
		}
		if all := left == 10*groups; all != c.want || left != 0 && !all {
			t.Errorf("%s: %d of %d messages left at once", name, left, 10*groups)
		}
	}
}

// A few messages that come close behind a send leave at once if the bus is mostly idle.
func TestBatcherEarly(t *testing.T) {
	b := batcherAt(aMinute, 10*time.Microsecond)
	b.interval = 21 * time.Microsecond
	for i := range maxEarly {
		if b.leaves(aMinute, nil, 1, 64, i%2 == 0, nobody) != (i%2 == 0) {
			t.Errorf("message %d", i)
		}
	}
	b.interval = 20 * time.Microsecond
	if b.leaves(aMinute, nil, 1, 64, true, nobody) {
		t.Error("a busy publisher's message leaves at once")
	}
}

// Who fills trains is busy, however long each takes.
func TestBatcherInterval(t *testing.T) {
	const cost = 10 * time.Microsecond
	b, now := batcherAt(aMinute, cost), aMinute
	for range 100 {
		now = now.Add(8 * cost)
		b.sending(now, true, false)
	}
	if b.interval < 2*cost {
		t.Errorf("single messages come %v apart by its account, they come %v", b.interval, 8*cost)
	}
	for range 100 {
		now = now.Add(8 * cost)
		b.sending(now, false, false)
	}
	if b.interval > cost {
		t.Errorf("who fills trains is taken for idle: %v", b.interval)
	}
}

// What has waited too long ends the row of full trains, but for a train that is filled
// slowly.
func TestBatcherOverdue(t *testing.T) {
	for _, c := range []struct{ packets, most, want int }{
		{1, 44, 0}, {21, 44, 0}, {22, 44, saturatedSends - pausePrice}, {44, 44, saturatedSends - pausePrice},
		{1, 2, 0}, {2, 2, saturatedSends - pausePrice},
	} {
		b := batcherAt(aMinute, time.Microsecond)
		b.full = saturatedSends
		if b.overdue(c.packets, c.most); b.full != c.want {
			t.Errorf("%d of %d packets: %d trains in a row, want %d", c.packets, c.most, b.full, c.want)
		}
	}
}

// Who goes round many groups and was held up for a moment sends what is due by then at once,
// message for message; who never pauses begins to wait for others after a while.
func TestBatcherBurstOverGroups(t *testing.T) {
	const cost, groups = 8 * time.Microsecond, 16
	pubs := make([]Publication, groups)
	b, now := batcherAt(aMinute, cost), aMinute
	i := 0
	publish := func(apart time.Duration) bool {
		now = now.Add(apart)
		i++
		at := b.leaves(now, &pubs[i%groups], 1, 64, true, nobody)
		if at {
			b.sending(now, true, false)
			b.took(now, now.Add(cost), true)
			now = now.Add(cost)
		}
		return at
	}
	for range 10 {
		for range 100 {
			if !publish(12 * time.Microsecond) {
				t.Fatal("a single message waits")
			}
		}
		now = now.Add(time.Millisecond)
		for j := range 50 {
			if !publish(100 * time.Nanosecond) {
				t.Fatalf("message %d of what was late waits", j)
			}
		}
	}
	began, left := now, 0
	for now.Sub(began) < 10*severalAfter {
		if publish(100 * time.Nanosecond) {
			left++
		}
	}
	if most := int(severalAfter/cost) + 1; left < most/2 || left > most {
		t.Errorf("a tight loop has sent %d messages by themselves, want some, at most %d", left, most)
	}
}

// How long trains wait that are filled at once follows what they held when they left.
func TestBatcherWaitsWhileItPays(t *testing.T) {
	b := batcherAt(aMinute, 8*time.Microsecond)
	b.idle = aMinute.Add(-severalAfter)
	for range 16 {
		b.opened(new(Publication), aMinute)
	}
	const least = 16 * sendShare * 8 * time.Microsecond
	for _, c := range []struct {
		packets, times int
		want           time.Duration
	}{
		{1, 3, least}, {10, 4, 16 * 50 * time.Microsecond}, {30, 4, severalLinger}, {3, 10, severalLinger},
		{1, 1, severalLinger / 2}, {1, 8, least},
	} {
		for range c.times {
			b.overdue(c.packets, 44)
		}
		if got := b.linger(); got != c.want {
			t.Errorf("after %d trains of %d packets they wait for %v, want %v", c.times, c.packets, got, c.want)
		}
	}
}

// Single messages that come late are hiccups; many in a row mean that the bus is idle.
func TestBatcherHiccup(t *testing.T) {
	b := batcherAt(aMinute, time.Microsecond)
	b.early = maxEarly
	now := aMinute
	late := func() {
		now = now.Add(time.Millisecond)
		b.leaves(now, nil, 1, 64, true, nobody)
		b.took(now, now, true)
	}
	for range idleAfter - 1 {
		late()
	}
	for range 10 {
		if now = now.Add(1); b.leaves(now, nil, 1, 64, true, nobody) {
			t.Fatal("a message that comes close leaves at once")
		}
	}
	for range idleAfter - 1 {
		if late(); b.idle != aMinute {
			t.Fatal("hiccups have made it idle")
		}
	}
	if late(); b.idle != now {
		t.Error("late messages in a row have not")
	}
}

func TestBatcherLinger(t *testing.T) {
	const cost = 10 * time.Microsecond
	for _, c := range []struct {
		name       string
		open, full int
		busy       time.Duration
		want       time.Duration
	}{
		{"one train", 1, 0, time.Second, 50 * time.Microsecond},
		{"full trains", 1, saturatedSends, 0, loopPark},
		{"several trains, just now", 16, 0, severalAfter - 1, 50 * time.Microsecond},
		{"several trains", 16, 0, severalAfter, 16 * sendShare * cost},
		{"more than can be sent in that time", 200, 0, time.Second, 4 * time.Millisecond},
	} {
		b := batcherAt(aMinute, cost)
		b.full, b.idle = c.full, aMinute.Add(-c.busy)
		for range c.open {
			b.opened(new(Publication), aMinute)
		}
		if got := b.linger(); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// Trains are due in the order in which they were opened, each once.
func TestBatcherNext(t *testing.T) {
	b := batcherAt(aMinute, time.Microsecond)
	if b.next(reliable.Never-1) != nil {
		t.Error("something is due of nothing")
	}
	pubs := make([]Publication, 100)
	for round := range 50 {
		for _, i := range []int{1, 0, 2} {
			b.opened(&pubs[round+i], aMinute.Add(time.Duration(i)))
			b.opened(&pubs[round+i], aMinute) // it waits already
		}
		if b.next(aMinute.Add(b.flushAfter-1)) != nil {
			t.Fatal("due too early")
		}
		for i := range 3 {
			if got := b.next(aMinute.Add(b.flushAfter + 2)); got != &pubs[round+i] {
				t.Fatalf("round %d: train %d is not the next one", round, i)
			}
		}
		if b.next(aMinute.Add(time.Hour)) != nil || b.trains() == severalTrains {
			t.Fatal("one is due twice")
		}
	}
	if cap(b.open) > 16 {
		t.Errorf("room for %d where 3 are open", cap(b.open))
	}
}

// How trains leave is told by how many are open, and by whether those before were full.
func TestBatcherTrains(t *testing.T) {
	b := batcherAt(aMinute, time.Microsecond)
	var pubs [2]Publication
	if b.opened(&pubs[0], aMinute); b.trains() != loneTrain {
		t.Errorf("one train is open: %d", b.trains())
	}
	for range saturatedSends {
		b.left(true)
	}
	if b.trains() != fullTrains {
		t.Errorf("%d full trains have left: %d", saturatedSends, b.trains())
	}
	if b.opened(&pubs[1], aMinute); b.trains() != severalTrains {
		t.Errorf("two trains are open: %d", b.trains())
	}
	if b.next(aMinute.Add(loopPark)); b.trains() != fullTrains {
		t.Errorf("one train is open again: %d", b.trains())
	}
	for range saturatedSends {
		b.left(true)
	}
	if b.left(false); b.trains() != loneTrain {
		t.Errorf("one train was not full: %d", b.trains())
	}
	if b.left(true); b.trains() != fullTrains {
		t.Errorf("one train of many was not full: %d", b.trains())
	}
}

// A publisher that signs sends less than 10,000 times a second, however its messages come and whatever a send takes.
// docs/protocol.md §29.7.
func TestBatcherSigned(t *testing.T) {
	for _, cost := range []time.Duration{25 * time.Microsecond, 60 * time.Microsecond, 120 * time.Microsecond} {
		for _, apart := range []time.Duration{time.Microsecond, 20 * time.Microsecond, 90 * time.Microsecond, 101 * time.Microsecond, time.Millisecond} {
			b := newBatcher(50 * time.Microsecond)
			b.signs()
			b.cost, b.active, b.sent, b.began, b.idle = cost, aMinute, aMinute, aMinute, aMinute
			var p Publication
			sends, now, opened := 0, aMinute, reliable.Instant(0)
			send := func() {
				b.took(now, now.Add(cost), true)
				now, sends, opened = now.Add(cost), sends+1, 0
			}
			for next := now; now < aMinute.Add(time.Second); next = next.Add(apart) {
				now = max(now, next)
				switch {
				case opened != 0 && now.Sub(opened) >= b.linger():
					send()
				case opened != 0:
				case b.leaves(now, &p, 1, 64, true, nobody):
					b.sending(now, true, false)
					send()
				default:
					opened = now
				}
			}
			if sends > 10_000+maxEarly {
				t.Errorf("%d sends in a second, of messages %v apart, of which each takes %v", sends, apart, cost)
			}
		}
	}
}

// A publisher that keeps a pace sends each message at once as long as sends can follow, but for one in
// maxEarlyPaced; one that makes messages faster than they can be sent has them wait for each other.
func TestBatcherPaced(t *testing.T) {
	const most = 10_000
	for _, c := range []struct {
		name               string
		pace, work, cost   time.Duration // pace: from message to message, whatever sends take; work: what making one takes
		atOnce, alsoAtOnce float64       // share of messages: at least, at most
		batch              uint64        // messages that come in one go
	}{
		{"a pace, little to send", 20 * time.Microsecond, 0, 5 * time.Microsecond, 1, 1, 1},
		{"a pace, half of it to send", 20 * time.Microsecond, 0, 10 * time.Microsecond, 1, 1, 1},
		{"a pace, much to send", 20 * time.Microsecond, 0, 15 * time.Microsecond, 0.85, 0.95, 1},
		{"a pace, nearly all to send", 20 * time.Microsecond, 0, 19 * time.Microsecond, 0.85, 0.95, 1},
		{"a pace that sends cannot follow", 20 * time.Microsecond, 0, 25 * time.Microsecond, 0, 0.5, 1},
		{"as fast as they are made", 0, 100 * time.Nanosecond, 15 * time.Microsecond, 0, 0.01, 1},
		{"as fast as they are made, slowly", 0, 5 * time.Microsecond, 15 * time.Microsecond, 0, 0.01, 1},
		{"batches at a pace, little to send", 20 * time.Microsecond, 0, 5 * time.Microsecond, 1, 1, 16},
		{"batches at a pace, half of it to send", 20 * time.Microsecond, 0, 10 * time.Microsecond, 1, 1, 16},
		{"batches as fast as they are made", 0, 500 * time.Nanosecond, 15 * time.Microsecond, 0, 0.02, 16},
	} {
		b := batcherAt(aMinute, c.cost)
		var p Publication
		var o open
		now, opened, left := aMinute, reliable.Instant(0), 0
		send := func() {
			b.took(now, now.Add(c.cost), true)
			now, opened = now.Add(c.cost), 0
			o.empty()
		}
		due := now
		for range most {
			now = now.Add(c.work)
			if due = due.Add(c.pace); c.pace > 0 && now < due {
				now = due
			}
			o.count += c.batch
			times, first := o.came(c.batch)
			switch {
			case b.leaves(now, &p, times, 64*int(c.batch), first, nobody):
				if b.sending(now, true, false); opened == 0 {
					left++
				}
				send()
			case opened == 0:
				opened = now
			case now.Sub(opened) >= b.linger():
				b.sending(now, false, false)
				send()
			}
		}
		if got := float64(left) / most; got < c.atOnce || got > c.alsoAtOnce {
			t.Errorf("%s: %.3f of messages leave at once, want %.3g to %.3g", c.name, got, c.atOnce, c.alsoAtOnce)
		}
	}
}

// Who kept a pace and then publishes in bursts is measured within the first: a burst does not leave message for message.
func TestBatcherBurstsBehindAPace(t *testing.T) {
	const cost, burst = 15 * time.Microsecond, 16
	b := batcherAt(aMinute, cost)
	var p Publication
	now, opened, sends := aMinute, reliable.Instant(0), 0
	send := func(by reliable.Instant) {
		b.took(by, by.Add(cost), true)
		now, opened, sends = max(now, by.Add(cost)), 0, sends+1
	}
	publish := func() {
		if opened != 0 && now.Sub(opened) >= b.linger() {
			send(opened.Add(b.linger())) // by the loop
		}
		switch {
		case b.leaves(now, &p, 1, 64, opened == 0, nobody):
			b.sending(now, true, false)
			send(now)
		case opened == 0:
			opened = now
		}
	}
	for next := now; next < aMinute.Add(20*time.Millisecond); next = next.Add(20 * time.Microsecond) {
		now = max(now, next)
		publish()
	}
	if !b.spacing.paced(cost) {
		t.Fatalf("messages %v apart keep no pace by its account", b.spacing.apart)
	}
	sends = 0
	for range 100 {
		now = now.Add(2 * time.Millisecond)
		for range burst {
			publish()
			now = now.Add(100 * time.Nanosecond)
		}
	}
	if sends > 500 {
		t.Errorf("%d sends for 100 bursts of %d messages", sends, burst)
	}
}
