package peer

import (
	"context"
	"net/netip"
	"slices"
	"time"
)

// Result holds the results of all tests, in the direction to the peer and from it.
type Result struct {
	Here     Info      `json:"here"`
	There    Info      `json:"there"`
	Group    string    `json:"group"`
	TTL      int       `json:"ttl"` // of the multicast sent
	To       Direction `json:"to"`
	From     Direction `json:"from"`
	Clock    Clock     `json:"clock"`
	Watch    Watch     `json:"watch"`
	Finished bool      `json:"finished"` // the peer answered until the end
}

type Direction struct {
	Multicast Row `json:"multicast"`
	Unicast   Row `json:"unicast"`
	Train     Row `json:"train"`
	Reply     Row `json:"reply"` // sent like statuses and NAKs: to a port that has sent only multicast
	// Packet is the size of the largest IP packet that arrives unfragmented, in bytes with its header; 0: unknown.
	Packet int `json:"packet"`
}

type Row struct {
	Sent int `json:"sent"`
	Tally
}

func (r Row) Lost() int { return max(r.Sent-r.Received, 0) }

// Clock compares the two clocks and measures the round trip.
type Clock struct {
	Samples   int           `json:"samples"`
	RoundTrip time.Duration `json:"round_trip_ns"` // minimum
	Median    time.Duration `json:"round_trip_median_ns"`
	// Offset is how far the peer's clock is ahead, accurate to Error.
	Offset time.Duration `json:"offset_ns"`
	Error  time.Duration `json:"offset_error_ns"`
}

type Watch struct {
	Seconds int     `json:"seconds"`
	To      Outcome `json:"to"`
	From    Outcome `json:"from"`
}

type Outcome struct {
	Received int `json:"received"`
	// Stopped is the number of seconds after which nothing more arrived until the end; 0: it continued, or never began.
	Stopped int `json:"stopped_after_seconds,omitempty"`
}

// Sizes of the tests.
const (
	probes  = 200
	trains  = 10
	samples = 30
	replies = 50
)

func (k *client) examine(ctx context.Context, watch time.Duration, progress func(string)) (*Result, error) {
	r := &Result{Group: k.cfg.Group.String(), TTL: k.cfg.TTL}
	began := time.Now()
	progress("groups")
	if err := k.request(ctx, rowInfo, &r.There); err != nil {
		return nil, err
	}
	if r.There = r.There.clean(); r.apart() {
		r.Here = info(k.cfg, k.conn, k.igmp)
		return r, nil // the two sides use different groups: nothing can be tested
	}
	for _, test := range []struct {
		name string
		do   func(context.Context, *Result) error
	}{
		{"clock and round trip", k.clock},
		{"multicast", k.rows},
		{"largest packet", k.packets},
		{"whether multicast continues", func(ctx context.Context, r *Result) error { return k.watch(ctx, r, watch, began) }},
		{"", func(ctx context.Context, r *Result) error { return k.request(ctx, rowInfo, &r.There) }},
	} {
		if test.name != "" {
			progress(test.name)
		}
		if err := test.do(ctx, r); err != nil {
			return nil, err
		}
	}
	r.There = r.There.clean()
	r.Here = info(k.cfg, k.conn, k.igmp)
	r.Finished = true
	return r, nil
}

func (r *Result) apart() bool { return r.There.Group != "" && r.There.Group != r.Group }

// clock asks the peer for its clock. The shortest round trip gives the smallest error (RFC 5905 §8).
func (k *client) clock(ctx context.Context, r *Result) error {
	var trips []time.Duration
	for range samples {
		p := k.ours(kindEcho, 0)
		sent := time.Now()
		p.Sent = sent.UnixNano()
		got, err := k.exchange(ctx, p, 0, kindEchoed, 1)
		switch {
		case err == nil && got.Sent == p.Sent:
			trip := got.at.Sub(sent)
			if len(trips) == 0 || trip < r.Clock.RoundTrip {
				r.Clock.RoundTrip = trip
				r.Clock.Offset = time.Unix(0, got.Received).Sub(sent.Add(trip / 2).Round(0))
				r.Clock.Error = trip / 2
			}
			trips = append(trips, trip)
		case err != nil && ctx.Err() != nil:
			return err
		}
	}
	if r.Clock.Samples = len(trips); len(trips) > 0 {
		slices.Sort(trips)
		r.Clock.Median = trips[len(trips)/2]
	}
	return nil
}

func (k *client) rows(ctx context.Context, r *Result) error {
	for _, row := range []struct {
		row      row
		count    int
		to, from *Row
	}{
		{rowMulticast, probes, &r.To.Multicast, &r.From.Multicast},
		{rowUnicast, probes, &r.To.Unicast, &r.From.Unicast},
		{rowTrain, trains * trainProbes, &r.To.Train, &r.From.Train},
	} {
		probes := run{Row: row.row, Count: row.count, Size: probeSize}
		row.to.Sent = k.conn.sendRow(packet{Session: k.session, Cookie: k.cookieFor(row.row)}, probes, k.peer)
		var err error
		if row.from.Sent, err = k.run(ctx, probes); err != nil {
			return err
		}
		if err := k.settle(ctx, row.row, row.to, row.from); err != nil {
			return err
		}
	}
	return k.rowsOfReplies(ctx, r)
}

// rowsOfReplies sends probes in both directions like a subscriber's statuses and NAKs. A stateful
// packet filter has no state for them, while it accepts answers to unicast.
func (k *client) rowsOfReplies(ctx context.Context, r *Result) error {
	probes := run{Row: rowReply, Count: replies, Size: probeSize}
	k.conn.publish((&packet{Kind: kindProbe, Row: rowReply, Session: k.session}).append(nil, probeSize))
	got, err := k.requestRun(ctx, probes, int64(k.conn.replyPort()))
	if err != nil {
		return err
	}
	r.From.Reply.Sent = min(int(got.Count), replies)
	if port := uint16(got.Size); port != 0 {
		r.To.Reply.Sent = k.conn.sendRow(packet{Session: k.session, Cookie: k.cookie}, probes,
			netip.AddrPortFrom(k.peer.Addr(), port))
	}
	return k.settle(ctx, rowReply, &r.To.Reply, &r.From.Reply)
}

// settle fetches the result of a row when all of it has arrived or nothing more does: a busy host
// reads its probes late, which is not loss.
func (k *client) settle(ctx context.Context, row row, to, from *Row) error {
	for quiet, had := 0, 0; quiet < quietPolls; {
		if err := sleep(ctx, settle); err != nil {
			return err
		}
		if err := k.requestTally(ctx, row, &to.Tally); err != nil {
			return err
		}
		from.Tally = k.mine(row)
		if to.Lost()+from.Lost() == 0 {
			break
		}
		quiet++
		if got := to.Received + from.Received; got > had {
			quiet, had = 0, got
		}
	}
	return nil
}

// cookieFor returns the cookie for probes: 0 for packets to the group, which any host can read.
func (k *client) cookieFor(row row) uint64 {
	if row == rowUnicast || row == rowSize || row == rowReply {
		return k.cookie
	}
	return 0
}

// watch sends one multicast probe a second in each direction until lasts has passed since began: a
// switch with IGMP snooping and no querier stops multicast in this time.
func (k *client) watch(ctx context.Context, r *Result, limit time.Duration, began time.Time) error {
	var to, from []bool // for each second, whether a probe arrived
	for len(to) < maxProbes && time.Since(began) < limit {
		number := uint32(len(to))
		k.conn.sendRow(packet{Session: k.session}, run{Row: rowWatch, Count: 1, Size: probeSize, First: number}, k.peer)
		if _, err := k.run(ctx, run{Row: rowWatch, Count: 1, Size: probeSize, First: number}); err != nil {
			return err
		}
		if err := sleep(ctx, min(time.Second, max(limit-time.Since(began), settle))); err != nil {
			return err
		}
		var there Tally
		if err := k.requestTally(ctx, rowWatch, &there); err != nil {
			return err
		}
		here := k.mine(rowWatch)
		to = append(to, there.Received > 0 && there.Latest == number)
		from = append(from, here.Received > 0 && here.Latest == number)
	}
	r.Watch = Watch{Seconds: int(time.Since(began).Seconds()), To: outcome(to), From: outcome(from)}
	return nil
}

const silentSeconds = 3 // seconds without a probe at the end after which multicast counts as stopped

func outcome(arrived []bool) (o Outcome) {
	last := -1
	for i, ok := range arrived {
		if ok {
			o.Received++
			last = i
		}
	}
	if o.Received > 0 && len(arrived)-1-last >= silentSeconds {
		o.Stopped = last + 1
	}
	return o
}

const headers = 20 + 8

const sizeRow = 8 // sizes tried in one row, each twice

func (k *client) packets(ctx context.Context, r *Result) error {
	if err := k.request(ctx, rowInfo, &r.There); err != nil {
		return err
	}
	hi := max(min(k.cfg.Interface.MTU, r.There.MTU, maxSize+headers), headers+headerSize)
	var err error
	if r.To.Packet, err = largest(hi, func(sizes []int) (int, error) {
		p := packet{Session: k.session, Cookie: k.cookie}
		for _, size := range sizes {
			k.conn.sendRow(p, run{Row: rowSize, Count: 2, Size: size - headers}, k.peer)
		}
		if err := sleep(ctx, settle); err != nil {
			return 0, err
		}
		var t Tally
		err := k.requestTally(ctx, rowSize, &t)
		return t.Largest + headers, err
	}); err != nil {
		return err
	}
	r.From.Packet, err = largest(hi, func(sizes []int) (int, error) {
		for _, size := range sizes {
			if _, err := k.run(ctx, run{Row: rowSize, Count: 2, Size: size - headers}); err != nil {
				return 0, err
			}
		}
		if err := sleep(ctx, settle); err != nil {
			return 0, err
		}
		return k.mine(rowSize).Largest + headers, nil
	})
	return err
}

// largest searches for the largest packet size that passes, up to hi. try sends packets of several
// sizes, and returns the largest that has passed so far. The result is 0 if none passes.
func largest(hi int, try func(sizes []int) (int, error)) (int, error) {
	const minSize = headers + headerSize
	passes, fails := minSize-1, hi+1
	sizes, sure := []int{hi, minSize}, false
	for len(sizes) > 0 {
		arrived, err := try(sizes)
		if err != nil {
			return 0, err
		}
		if arrived = min(arrived, hi); arrived > passes {
			passes, sure = arrived, false
		}
		if passes < minSize {
			return 0, nil
		}
		for _, size := range sizes {
			if size > passes {
				fails = min(fails, size)
			}
		}
		if sizes = between(passes, fails); len(sizes) == 0 && passes < hi && !sure {
			// The failure may be a random loss: try once more.
			sizes, fails, sure = []int{passes + 1, hi}, hi+1, true
		}
	}
	return passes, nil
}

func between(passes, fails int) (sizes []int) {
	for i := 1; i <= sizeRow; i++ {
		size := passes + (fails-passes)*i/(sizeRow+1)
		if size > passes && (len(sizes) == 0 || size > sizes[len(sizes)-1]) {
			sizes = append(sizes, size)
		}
	}
	return sizes
}
