package reliable

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// The tests of this file check the rules of docs/protocol for receivers whose numbers no other test checks.

// constant is a random source with all values equal to u, from 0 to 1.
type constant float64

func (u constant) Uint64() uint64 { return uint64(u * (1 << 53)) }

// The first NAK waits for the grace time and a random part of the back-off window, as in RFC 5401
// §3.2. The expected values were computed independently from the formula of docs/protocol §6.3.
func TestFirstNAKIsDrawn(t *testing.T) {
	for _, c := range []struct {
		receivers uint32
		u         float64
		want      time.Duration // with a window of 1 ms
	}{
		{0, 0.5, 690340},
		{2, 0, 0},
		{2, 0.5, 690340}, // one receiver counts as two
		{3, 0.25, 488694},
		{100, 0.01, 233814},
		{100, 0.5, 876993},
		{100, 0.99, 998213},
		{1_000_000, 0.5, 953214},
	} {
		r := rand.New(constant(c.u))
		for _, grace := range []time.Duration{0, 70 * time.Microsecond} {
			n := nakState{grace: grace}
			n.heard(&wire.Heartbeat{Backoff: time.Millisecond, Receivers: c.receivers})
			if d := n.firstDelay(r) - grace - c.want; d < -1 || d > 1 {
				t.Errorf("%d receivers, random %v, grace %v: %v, want the grace plus %v", c.receivers, c.u, grace, n.firstDelay(r), c.want)
			}
		}
		n := nakState{grace: 70 * time.Microsecond}
		n.heard(&wire.Heartbeat{Backoff: time.Hour, Receivers: c.receivers})
		if got, want := n.firstDelay(r), 70*time.Microsecond+10*c.want; got < want-10 || got > want+10 {
			t.Errorf("%d receivers, random %v, a window of an hour: %v, want %v, as for 10 ms", c.receivers, c.u, got, want)
		}
		if n.heard(&wire.Heartbeat{Receivers: c.receivers}); n.firstDelay(r) != n.grace {
			t.Errorf("%d receivers, random %v, no window: %v, want only the grace", c.receivers, c.u, n.firstDelay(r))
		}
	}
}

// A receiver's round trip begins with the publisher's, follows its own samples, and uses the
// publisher's as a sample if it is more than twice its own. docs/protocol §6.9.
func TestReceiverSmoothsTheRoundTrip(t *testing.T) {
	const us = time.Microsecond
	type step struct {
		stated, sample time.Duration // in a heartbeat; from a NAK to the repair
		rtt, variance  time.Duration
		retry          time.Duration
	}
	for name, steps := range map[string][]step{
		"nothing measured": {{0, 0, 200 * us, 0, 400 * us}},
		"the publisher's first": {
			{1000 * us, 0, 1000 * us, 500 * us, 3000 * us},
			{0, 1400 * us, 1050 * us, 475 * us, 2950 * us},
			{0, 600 * us, 993750, 468750, 2868750},
			{0, 0, 993750, 468750, 2868750},
			{1900 * us, 0, 993750, 468750, 2868750}, // not more than twice
			{2000 * us, 0, 1119531, 603125, 3532031},
			{time.Minute, 0, 63479590, 125172461, 564169434},   // counts as 500 ms
			{500 * us, 1, 55545266, 109747993, 20000000},       // counts as 5 µs
			{10 * us, 1000 * us, 48727108, 95947311, 20000000}, // a short stated one has no effect
			{5000 * us, 1000 * us, 42761219, 83892261, 20000000},
			{100 * time.Second, 0, 0, 0, 0}, // see below
		},
		"our own first": {
			{0, 100 * us, 100 * us, 50 * us, 300 * us},
			{0, 100 * us, 100 * us, 37500, 250 * us},
			{200 * us, 0, 100 * us, 37500, 250 * us},
			{201 * us, 0, 112625, 53375, 326125},
		},
	} {
		// The expected values were computed independently from the text of the rule.
		var n nakState
		for i, s := range steps {
			if s == (step{stated: 100 * time.Second}) {
				for range 200 { // limited all the same
					n.heard(&wire.Heartbeat{RTT: s.stated})
				}
				if got := n.rtt.retry(n.path); got < farRTT || got > farRTT+time.Millisecond {
					t.Errorf("%s, step %d: repetition after %v, want %v", name, i, got, farRTT)
				}
				continue
			}
			n.heard(&wire.Heartbeat{RTT: s.stated})
			if s.sample > 0 {
				n.rtt.sample(s.sample)
			}
			near := func(got, want time.Duration) bool { return got-want <= 8 && want-got <= 8 } // ns, rounding errors
			if !near(n.rtt.value(), s.rtt) || !near(n.rtt.variance, s.variance) || !near(n.rtt.retry(n.path), s.retry) {
				t.Errorf("%s, step %d: round trip %v, deviation %v, repetition after %v; want %v, %v, %v", name, i,
					n.rtt.value(), n.rtt.variance, n.rtt.retry(n.path), s.rtt, s.variance, s.retry)
			}
		}
	}
}

// Only a repair requested once is a sample of the round trip. docs/protocol §6.9.
func TestRoundTripOfOneNAK(t *testing.T) {
	r := newReceiver(t, &log{}, nil)
	now := Instant(1)
	ask := func(first uint64) {
		t.Helper()
		r.Handle(now, 5, data(3, first, 0))
		r.Handle(now, 5, data(3, first+2, 0))
		if len(of(wire.TypeNAK, replies(r, now))) != 1 {
			t.Fatalf("no NAK for packet %d", first+1)
		}
	}
	ask(0)
	now = now.Add(2 * startRTT)
	if len(of(wire.TypeNAK, replies(r, now))) != 1 {
		t.Fatal("the NAK was not repeated")
	}
	now = now.Add(50 * time.Microsecond)
	r.Handle(now, 5, data(3, 1, wire.FlagRepair))
	st := r.Streams()[0]
	if d := st.nak.rtt.known(); d != 0 {
		t.Errorf("after a repair requested twice the round trip is %v", d)
	}
	ask(3)
	now = now.Add(70 * time.Microsecond)
	r.Handle(now, 5, data(3, 4, wire.FlagRepair))
	if d := st.nak.rtt.known(); d != 70*time.Microsecond {
		t.Errorf("after a repair within 70 µs the round trip is %v", d)
	}
}

// Values stated by the publisher override our defaults: its packet size, its cadence of statuses,
// its heartbeat interval. docs/protocol §20.1, §5.4, §7.2.
func TestTimersComeFromThePublisher(t *testing.T) {
	for _, c := range []struct{ cadence, interval time.Duration }{
		{77 * time.Millisecond, 600 * time.Millisecond},
		{300 * time.Millisecond, 1500 * time.Millisecond},
	} {
		l := &log{}
		r := newReceiver(t, l, nil)
		beat := func(now Instant) {
			hb := wire.Heartbeat{Lead: 1, SentAt: uint64(now), PacketSize: 700, StatusInterval: c.cadence, Interval: c.interval}
			r.Handle(now, 5, wire.AppendHeartbeat(nil, wire.Header{GroupTag: 9, Publisher: 7, Epoch: 3}, &hb))
		}
		beat(1)
		r.Handle(1, 5, data(3, 1, 0)) // states 512 bytes
		if n := r.Stats().Unreadable; n != 1 {
			t.Errorf("%d packets of another size were given up, want 1", n)
		}
		now, last := Instant(1), Instant(1)
		var distances []time.Duration
		for ; now < Instant(3*time.Second); now = now.Add(time.Millisecond) {
			if now.Sub(1)%(500*time.Millisecond) == 0 && now > 1 {
				beat(now)
				last = now
			}
			for range of(wire.TypeStatus, replies(r, now)) {
				distances = append(distances, now.Sub(1))
			}
		}
		tail := distances[len(distances)-3:]
		if d := tail[2] - tail[1]; d < c.cadence || d > c.cadence+2*time.Millisecond {
			t.Errorf("next status after %v, want %v", d, c.cadence)
		}
		for len(l.down) == 0 && now < Instant(time.Minute) {
			now = now.Add(time.Millisecond)
			replies(r, now)
		}
		if d, want := now.Sub(last), 4*c.interval+100*time.Millisecond; d < want || d > want+2*time.Millisecond {
			t.Errorf("lost after %v, want %v", d, want)
		}
	}
}

// A NAK is repeated after the repetition interval, which doubles every second time, up to 20 ms. docs/protocol §6.4.
func TestNAKsAreRepeatedAtDoublingDistances(t *testing.T) {
	r := newReceiver(t, &log{}, nil)
	r.Handle(1, 5, data(3, 0, 0))
	r.Handle(1, 5, data(3, 2, 0))
	var at []Instant
	for now := Instant(1); now < Instant(200*time.Millisecond); now = max(now+1, r.Deadline()) {
		if len(of(wire.TypeNAK, replies(r, now))) > 0 {
			at = append(at, now)
		}
	}
	want := 2 * startRTT // before a round trip was measured
	for i := range at[:len(at)-1] {
		if d := at[i+1].Sub(at[i]); d != min(want, maxRetry) {
			t.Errorf("NAK %d is sent after %v, want %v", i+1, d, min(want, maxRetry))
		}
		if i%2 == 1 {
			want *= 2
		}
	}
	if len(at) < 16 {
		t.Errorf("only %d NAKs", len(at))
	}
}

// Before packets that arrived by now have been read, only the first NAK is sent, no packet is given
// up, and the publisher does not count as silent. Statuses continue. docs/protocol §6.15.
func TestUnreadPacketsAreNotMissing(t *testing.T) {
	l := &log{}
	r := newReceiver(t, l, nil)
	read := Instant(1)
	r.cfg.Buffer.Read(read)
	r.Handle(2, 5, data(3, 0, 0))
	r.Handle(2, 5, data(3, 2, 0))
	counts := func(until time.Duration) (naks, statuses int) {
		for now := read + 1; now < Instant(until); now = now.Add(10 * time.Millisecond) {
			all := replies(r, now)
			naks += len(of(wire.TypeNAK, all))
			statuses += len(of(wire.TypeStatus, all))
		}
		return naks, statuses
	}
	if naks, statuses := counts(time.Minute); naks != 1 || statuses < 50 || r.Stats().Lost > 0 || len(l.down) > 0 {
		t.Errorf("nothing read: %d NAKs, want 1; %d statuses, want 50 or more; %d packets given up, %d streams lost", naks, statuses, r.Stats().Lost, len(l.down))
	}
	read = Instant(2 * time.Second)
	r.cfg.Buffer.Read(read)
	if naks, _ := counts(time.Minute); naks != 1 || r.Stats().Lost > 0 || len(l.down) > 0 {
		t.Errorf("2 s read: %d NAKs, want 1; %d packets given up, %d streams lost", naks, r.Stats().Lost, len(l.down))
	}
	r.cfg.Buffer.Read(Instant(time.Minute))
	if replies(r, Instant(time.Minute)); r.Stats().Lost != 1 || len(l.down) != 1 {
		t.Errorf("all read: %d packets given up, %d streams lost, want 1 each", r.Stats().Lost, len(l.down))
	}
}

// The grace time of a gap follows the delay of late packets. docs/protocol §6.10.
func TestGrace(t *testing.T) {
	var n nakState
	for i, step := range []struct {
		late time.Duration // 0: it was repaired
		want time.Duration
	}{
		{100 * time.Microsecond, 125 * time.Microsecond},
		{40 * time.Microsecond, 125*time.Microsecond - 75*time.Microsecond/16},
		{0, 116552 * time.Nanosecond},
		{time.Second, 2 * startRTT},
	} {
		if step.late > 0 {
			n.late(step.late)
		} else {
			n.repaired()
		}
		if d := n.grace - step.want; d < -time.Microsecond || d > time.Microsecond {
			t.Errorf("step %d: grace %v, want %v", i, n.grace, step.want)
		}
	}
}

// The limit is the room in the window, and in the receive buffer beyond the known packets; streams
// share both. docs/protocol §7.3.
func TestLimitIsTheRoomAvailable(t *testing.T) {
	r := newReceiver(t, &log{}, func(c *ReceiverConfig) { c.Buffer = NewReceiveBuffer(40, false, false) })
	limit := func(publisher byte) uint64 {
		t.Helper()
		b := heartbeatOf(3, wire.FlagSolicit, wire.Heartbeat{Lead: 5, SentAt: uint64(publisher)})
		b[17] = publisher
		r.Handle(1, 5, b)
		for _, p := range of(wire.TypeStatus, replies(r, 1)) {
			if st, err := wire.ParseStatus(p.b); err == nil && p.b[17] == publisher {
				return st.Limit
			}
		}
		t.Fatal("no status")
		return 0
	}
	// A stream has half of the memory, shared by two: 32 packets; half of the buffer is 20.
	if got := limit(1); got != 5+20 {
		t.Errorf("one stream: limit %d, want %d", got, 5+20)
	}
	if got := limit(2); got != 5+10 {
		t.Errorf("two streams: limit %d, want %d", got, 5+10)
	}
	small := newReceiver(t, &log{}, func(c *ReceiverConfig) {
		c.WindowBytes, c.MemoryBytes, c.Buffer = 16*512, 16*512*2, NewReceiveBuffer(1000, false, false)
	})
	small.Handle(1, 5, heartbeatOf(3, 0, wire.Heartbeat{Lead: 5, SentAt: 1}))
	st, err := wire.ParseStatus(of(wire.TypeStatus, replies(small, 1))[0].b)
	if want := uint64(5 + 16/2); err != nil || st.Limit != want {
		t.Errorf("small window: limit %d, want %d", st.Limit, want)
	}
}

// Topics and name are in the first statuses and in those after a change, not in every solicited
// one. docs/protocol §7.1, §7.6.
func TestStatusesNameTopicsNowAndThen(t *testing.T) {
	ids := []uint64{wire.TopicID("a.b"), wire.TopicID("c"), wire.TopicID("d")}
	layer, now := &listing{topics: ids[:1]}, Instant(1)
	l := &log{contents: func(*Stream) Contents { return layer }}
	r := newReceiver(t, l, func(c *ReceiverConfig) { c.Name = "reader" })
	change := func(topics []uint64) {
		layer.topics = topics
		r.WantedChanged(now)
	}
	var at []time.Duration
	r.Handle(now, 5, data(3, 0, 0))
	for ; now < Instant(300*time.Millisecond); now = max(now+1, r.Deadline()) {
		for _, p := range of(wire.TypeStatus, replies(r, now)) {
			st, err := wire.ParseStatus(p.b)
			if err != nil || st.Topics() != 1 || st.Topic(0) != wire.TopicID("a.b") || string(st.Name) != "reader" {
				t.Errorf("an early status has %d topics and name %q, %v", st.Topics(), st.Name, err)
			}
			at = append(at, now.Sub(1))
		}
	}
	if want := []time.Duration{0, 20 * time.Millisecond, 60 * time.Millisecond, 140 * time.Millisecond}; !slices.Equal(at, want) {
		t.Errorf("statuses at %v, want %v", at, want)
	}
	now = Instant(200 * time.Millisecond)
	ask := func(sentAt uint64) wire.Status {
		t.Helper()
		r.Handle(now, 5, heartbeatOf(3, wire.FlagSolicit, wire.Heartbeat{Lead: 1, SentAt: sentAt, Interval: time.Second, StatusInterval: time.Second}))
		list := of(wire.TypeStatus, replies(r, now))
		if len(list) != 1 {
			t.Fatalf("%d statuses for a solicitation", len(list))
		}
		st, err := wire.ParseStatus(list[0].b)
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	if st := ask(1); st.Topics() != 0 || len(st.Name) != 0 {
		t.Errorf("a solicited status has %d topics and name %q", st.Topics(), st.Name)
	}
	change(ids[:2])
	if st := ask(2); st.Topics() != 2 || string(st.Name) != "reader" {
		t.Errorf("with other topics: %d, name %q", st.Topics(), st.Name)
	}
	// The publisher answers a question for the topics that it knows, so each status with it names them.
	// docs/protocol §9.3.
	layer.open = true
	r.Streams()[0].Report(0, true)
	change(ids)
	if st, again := ask(3), ask(4); st.Topics() != 3 || again.Topics() != 3 || again.Question != st.Question {
		t.Errorf("with a question: %d topics, then %d", st.Topics(), again.Topics())
	}
	layer.open = false
	change(ids[:2])
	replies(r, now)
	now = now.Add(600 * time.Millisecond)
	if st := ask(5); st.Topics() != 2 || string(st.Name) != "reader" || st.Unread != 0 {
		t.Errorf("half a cadence later: %d topics, name %q", st.Topics(), st.Name)
	}
}

// A receiver that has everything up to the end reports that, ends the stream, and replies for two
// more seconds. docs/protocol §11.2.
func TestEndedStreamAnswersForAWhile(t *testing.T) {
	l := &log{}
	r := newReceiver(t, l, nil)
	now := Instant(1)
	r.Handle(now, 5, data(3, 0, 0))
	replies(r, now)
	end := func(sentAt uint64) []sent {
		r.Handle(now, 5, heartbeatOf(3, wire.FlagEnd|wire.FlagSolicit, wire.Heartbeat{Lead: 2, SentAt: sentAt}))
		return of(wire.TypeStatus, replies(r, now))
	}
	if len(end(1)) != 1 || len(end(2)) != 1 || len(l.down) != 0 {
		t.Fatal("no reply, or ended without the last packet")
	}
	r.Handle(now, 5, data(3, 1, wire.FlagRepair))
	st := of(wire.TypeStatus, replies(r, now))
	if len(st) != 1 || !slices.Equal(l.down, []events.Cause{events.CauseNone}) {
		t.Fatalf("%d statuses, down %v", len(st), l.down)
	}
	if x, err := wire.ParseStatus(st[0].b); err != nil || x.Next != 2 {
		t.Errorf("the status has next %d, %v", x.Next, err)
	}
	for i := range uint64(5) {
		now = now.Add(endedKeep)
		if len(end(2+i)) != 1 {
			t.Errorf("no reply to END heartbeat %d", i)
		}
	}
	want(r, now, false) // unwanted: the reply must not look like the return of the receiver
	leaving := func(b []byte) bool { return wire.Flags(b[4])&wire.FlagLeaving != 0 }
	if st = end(7); len(st) != 1 || !leaving(st[0].b) {
		t.Errorf("%d replies for an unwanted stream, want one, with the leaving flag", len(st))
	}
	now = now.Add(endedKeep + 1)
	r.Tick(now)
	if len(end(10)) != 0 || len(r.Streams()) != 0 || r.Stats().Stale != 1 {
		t.Errorf("replies never end: %d streams, %d stale", len(r.Streams()), r.Stats().Stale)
	}
}

// A stream that is down sends no NAKs and no statuses. docs/protocol §11.4.
func TestDownStreamSendsNothing(t *testing.T) {
	l := &log{}
	r := newReceiver(t, l, nil)
	r.Handle(1, 5, data(3, 0, 0))
	now := Instant(1)
	for len(l.down) == 0 {
		now = max(now+1, r.Deadline())
		replies(r, now)
	}
	for range 100 {
		now = now.Add(100 * time.Millisecond)
		r.Handle(now, 5, data(3, 0, wire.FlagRepair)) // a duplicate does not bring it up
		if n := len(replies(r, now)); n != 0 {
			t.Fatalf("%d control packets", n)
		}
	}
	if d := r.Deadline(); d != Never {
		t.Errorf("a deadline is set: %v", d)
	}
}

// Missing packets take one entry each, and there are no more entries than packets in the window. docs/protocol §12.4.
func TestMissingPacketsAreBounded(t *testing.T) {
	r := newReceiver(t, &log{}, nil)
	r.Handle(1, 5, data(3, 0, 0))
	for i := range uint64(10) {
		r.Handle(Instant(i+2), 5, heartbeatOf(3, 0, wire.Heartbeat{Lead: 1 << 20, Trail: 1, SentAt: i + 1}))
	}
	st := r.Streams()[0]
	if st.high != 1<<20 || st.nak.missing > st.Span() || len(st.win.entries) != nextPow2(st.Span()) {
		t.Errorf("%d are known, %d of them missing, in a window of %d; %d entries", st.high, st.nak.missing, st.Span(), len(st.win.entries))
	}
	for _, p := range of(wire.TypeNAK, replies(r, 20)) {
		n, err := wire.ParseRanges(p.b)
		if err != nil {
			t.Fatal(err)
		}
		for first, count, ok := n.Next(); ok; first, count, ok = n.Next() {
			if first < 1 || first+count > 1+uint64(st.Span()) {
				t.Errorf("requested %d packets from %d on", count, first)
			}
		}
	}
}

// A bus without hellos ignores received ones. docs/protocol §14.8.
func TestHellosMayBeIgnored(t *testing.T) {
	r := newReceiver(t, &log{}, nil)
	r.Handle(1, 5, wire.AppendHello(nil, wire.Header{GroupTag: 9, Publisher: 7, Epoch: 3}, &wire.Hello{}))
	if st := r.Stats(); st.Foreign != 1 || len(r.Streams()) != 0 || len(replies(r, 1)) != 0 {
		t.Errorf("%+v, %d streams", st, len(r.Streams()))
	}
}

// Each case has heartbeats, and says which of them are new. docs/protocol §5.9.
func TestNewHeartbeats(t *testing.T) {
	const s = uint64(time.Second)
	type one struct {
		after  time.Duration // since the arrival of the previous one
		sentAt uint64
		fresh  bool
	}
	for name, heartbeats := range map[string][]one{
		"in time":                     {{0, 100 * s, true}, {time.Second, 101 * s, true}, {time.Second, 102 * s, true}},
		"a copy":                      {{0, 100 * s, true}, {0, 100 * s, false}, {time.Second, 100 * s, false}},
		"overtaken":                   {{0, 100 * s, true}, {0, 100*s + 2, true}, {0, 100*s + 1, false}},
		"delayed, and those after it": {{0, 100 * s, true}, {3 * time.Second, 101 * s, true}, {0, 102*s + s/2, true}},
		"just not from the future":    {{0, 100 * s, true}, {time.Second, 102*s + s/2, true}},
		"from the future, alone":      {{0, 100 * s, true}, {time.Second, 102*s + s/2 + 1, false}, {0, 101 * s, true}},
		"from the future, confirmed":  {{0, 100 * s, true}, {time.Second, 500 * s, false}, {time.Second, 501 * s, true}, {time.Second, 502 * s, true}},
		"from the future, repeated":   {{0, 100 * s, true}, {time.Second, 500 * s, false}, {time.Second, 500 * s, false}, {0, 102 * s, true}},
		"a genuine one between two":   {{0, 100 * s, true}, {time.Second, 500 * s, false}, {0, 101 * s, true}, {time.Second, 501 * s, false}},
		"two that are not close":      {{0, 100 * s, true}, {time.Second, 500 * s, false}, {time.Second, 508*s + 1, false}, {0, 102 * s, true}},
	} {
		var g clockGuard
		now := Instant(time.Hour)
		for i, b := range heartbeats {
			now = now.Add(b.after)
			if got := g.fresh(now, b.sentAt); got != b.fresh {
				t.Errorf("%s: heartbeat %d new: %v, want %v", name, i, got, b.fresh)
			} else if got {
				g.heard(now, b.sentAt)
			}
		}
	}
}

// The silence limit of a publisher follows its heartbeat interval. docs/protocol §5.4, §11.3.
func TestSilenceLimit(t *testing.T) {
	for _, c := range []struct{ interval, want time.Duration }{
		{0, 4100 * time.Millisecond}, // without a heartbeat
		{100 * time.Millisecond, 2 * time.Second},
		{500 * time.Millisecond, 2100 * time.Millisecond},
		{time.Second, 4100 * time.Millisecond},
		{time.Hour, 8100 * time.Millisecond},
	} {
		l := &log{}
		r := newReceiver(t, l, nil)
		now := Instant(time.Hour)
		if c.interval == 0 {
			r.Handle(now, 5, data(3, 0, 0))
		} else {
			r.Handle(now, 5, heartbeatOf(3, 0, wire.Heartbeat{SentAt: 1, Interval: c.interval}))
		}
		r.Tick(now.Add(c.want))
		if len(l.down) != 0 {
			t.Errorf("interval %v: lost before %v", c.interval, c.want)
		}
		if r.Tick(now.Add(c.want + 1)); len(l.down) != 1 {
			t.Errorf("interval %v: not lost after %v", c.interval, c.want)
		}
	}
}
