package sim

import (
	"math/rand/v2"
	"time"

	"github.com/fanfaremq/fanfare/internal/slow"
	"github.com/fanfaremq/fanfare/reliable"
)

// Simple returns a sound network with one publisher of n messages under min and some in-place
// subscribers: the base of scenarios.
func Simple(seed uint64, subscribers, messages int) Options {
	o := Options{
		Seed: seed,
		Net:  Net{Latency: 10 * time.Microsecond, Run: 1, ReorderDepth: 1},
		Publishers: []Publisher{{
			PacketSize: 1472, Trains: Trains{MaxTrain: 16}, Window: 1024, Topics: 1, Writers: 1, Size: [2]int{64, 64},
			Burst: 20, Gap: 20 * time.Microsecond, Lives: []Life{{Messages: messages, Stop: StopEnd}},
		}},
		Faults: time.Hour,
		Drain:  10 * time.Second,
	}
	for range subscribers {
		o.Subscribers = append(o.Subscribers, Subscriber{
			Window: 1 << 20, Memory: 1 << 20, Keep: 64, Buffer: 512, Streams: 4, Topics: 1, InPlace: true, Batch: 64,
			Stays: []Stay{{Stop: StopNever}},
		})
	}
	// Subscribers begin before the publisher.
	o.Publishers[0].Lives[0].After = time.Millisecond
	return o
}

// drawer draws options.
type drawer struct{ *rand.Rand }

func (d drawer) chance(percent int) bool { return d.IntN(100) < percent }

func (d drawer) between(lo, hi int) int { return lo + d.IntN(hi-lo+1) }

// time draws from lo to hi, with equal probability for each decade.
func (d drawer) time(lo, hi time.Duration) time.Duration {
	x := lo
	for x < hi && d.chance(70) {
		x *= 2
	}
	x = min(x, hi)
	return x/2 + time.Duration(d.Int64N(int64(x/2)+1))
}

// ratio draws a ratio that is often zero, mostly small, and rarely close to limit.
func (d drawer) ratio(off int, limit Ratio) Ratio {
	if d.chance(off) {
		return 0
	}
	if d.chance(70) {
		return Ratio(d.Uint32N(uint32(limit)/10) + 1)
	}
	return Ratio(d.Uint32N(uint32(limit)) + 1)
}

func pick[T any](d drawer, of ...T) T { return of[d.IntN(len(of))] }

// Draw draws a small run from a seed: the kinds of faults, the numbers of publishers and
// subscribers, and all their options.
func Draw(seed uint64) Options {
	d := drawer{rand.New(rand.NewPCG(seed, 0xd7a3))}
	o := Options{Seed: seed, Checksum: d.chance(70)}
	o.Net = d.net()
	o.Faults = d.time(2*time.Millisecond, 500*time.Millisecond)
	o.Drain = 30 * time.Second
	packetSize := pick(d, 512, 512, 640, 1472)
	for range pick(d, 1, 1, 1, 2, 3) {
		o.Publishers = append(o.Publishers, d.publisher(packetSize, o.Faults))
	}
	d.identities(&o)
	for range pick(d, 1, 1, 2, 3, 4) {
		o.Subscribers = append(o.Subscribers, d.subscriber(&o))
	}
	if d.chance(15) {
		o.Cuts = append(o.Cuts, Cut{
			At: d.time(100*time.Microsecond, o.Faults), For: d.time(time.Millisecond, 3*time.Second),
			Publisher: d.between(-1, len(o.Publishers)-1), Subscribers: d.Uint64N(1 << len(o.Subscribers)),
			Up: d.chance(70), Down: d.chance(70),
		})
	}
	if d.chance(20) {
		o.Attack = Attack{
			Every:   max(o.Faults/400, d.time(20*time.Microsecond, 5*time.Millisecond)),
			Garbage: d.chance(50), Truncate: d.chance(50), Damage: d.chance(50), Replay: d.chance(50),
			Far: d.chance(50), Forge: d.chance(30),
		}
	}
	for i := range o.Subscribers {
		o.Subscribers[i].Keep = pick(d, 0, 3, 20, 1000)
	}
	d.stalls(&o)
	for i := range o.Subscribers {
		if d.chance(30) {
			o.Subscribers[i].Turn = d.between(1, 50)
		}
	}
	d.slow(&o)
	for i := range o.Publishers {
		d.flow(&o.Publishers[i])
	}
	d.joins(&o)
	d.patterns(&o)
	for i := range o.Publishers {
		o.Publishers[i].Tagged = d.chance(20)
	}
	for i := range o.Subscribers {
		o.Subscribers[i].Tagged = d.chance(60)
	}
	d.requests(&o)
	d.lists(&o)
	d.states(&o)
	d.legs(&o)
	d.compression(&o)
	d.patternStates(&o)
	for i := range o.Publishers {
		if d.chance(30) {
			o.Publishers[i].Pad = pick(d, packetSize, packetSize, 64)
		}
	}
	d.noData(&o)
	d.queries(&o)
	d.unreadable(&o)
	if d.chance(15) {
		d.extremes(&o)
	}
	for i := range o.Publishers {
		o.Publishers[i].ReadsReplies = d.chance(50)
	}
	return o
}

// extremes makes some options of a run extreme: such runs found faults that no other run found.
func (d drawer) extremes(o *Options) {
	if d.chance(40) {
		o.Net.Reorder, o.Net.ReorderDepth = d.ratio(0, 60*Percent), d.between(1, 300)
	}
	if d.chance(20) {
		o.Net.UnicastLoss = d.ratio(0, 95*Percent)
	}
	for i := range o.Publishers {
		p := &o.Publishers[i]
		if d.chance(30) {
			p.Large, p.LargeBytes, p.Abandon = d.ratio(0, 90*Percent), pick(d, 1000, 1500, 2000), d.ratio(20, 50*Percent)
		}
		if d.chance(30) {
			p.Repairs = pick(d, Percent, 10*Percent, 400*Percent)
		}
	}
	for i := range o.Subscribers {
		if d.chance(30) {
			o.Subscribers[i].Deadline = d.time(200*time.Microsecond, 4*time.Millisecond)
		}
	}
}

// slow draws a slow-consumer policy for readers that do not block the publisher.
func (d drawer) slow(o *Options) {
	for i := range o.Subscribers {
		for j := range o.Subscribers[i].Readers {
			r := &o.Subscribers[i].Readers[j]
			switch {
			case r.Block && d.chance(30):
				r.Conflate = d.between(1, 20)
				r.Delay = 0
			case r.Block:
			case d.chance(40):
				r.Slow = slow.Policy{Kind: slow.Latest, Behind: d.between(1, 20)}
			case d.chance(20):
				r.Slow = slow.Policy{Kind: slow.Evict, Behind: d.between(1, 20)}
			case d.chance(40):
				r.Conflate = d.between(1, 20)
				r.Delay = 0
			}
		}
	}
}

// patterns subscribes some subscribers to patterns, from the beginning or later.
func (d drawer) patterns(o *Options) {
	for i := range o.Subscribers {
		s := &o.Subscribers[i]
		if !d.chance(35) {
			continue
		}
		for range d.between(1, 3) {
			p := Pattern{Text: pick(d, patternTexts...)}
			if s.From == 0 && d.chance(60) { // a subscriber that begins with message numbers cannot add patterns later
				p.At = d.time(10*time.Microsecond, o.Faults)
			}
			s.Patterns = append(s.Patterns, p)
		}
		if d.chance(60) {
			s.Topics = d.between(0, s.Topics)
		}
	}
}

// flow lets some publishers wait only for a quorum, and release slow subscribers.
func (d drawer) flow(p *Publisher) {
	if d.chance(20) {
		p.Flow, p.Quorum = FlowQuorum, d.between(1, 4)
	}
	if d.chance(20) {
		p.Slow = reliable.SlowLimit{Behind: uint64(d.between(1, p.Window)),
			For: d.time(100*time.Microsecond, 100*time.Millisecond)}
	}
}

// stalls stops some readers, and lets publishers release them.
func (d drawer) stalls(o *Options) {
	for i := range o.Publishers {
		if d.chance(50) {
			o.Publishers[i].StallLimit = d.time(200*time.Millisecond, time.Second)
		}
	}
	for i := range o.Subscribers {
		for j := range o.Subscribers[i].Readers {
			if d.chance(20) {
				o.Subscribers[i].Readers[j].Stops = []Pause{{At: d.time(100*time.Microsecond, o.Faults),
					For: d.time(time.Millisecond, 3*time.Second)}}
			}
		}
	}
}

// identities lets publishers share an id, in lives with any epochs: duplicate names, a rolling
// update, a clock that was set back.
func (d drawer) identities(o *Options) {
	for i := range o.Publishers {
		p := &o.Publishers[i]
		if i > 0 && d.chance(40) {
			p.As = 1 // the first one cannot share an earlier id
		}
		if p.As > 0 || d.chance(30) {
			for j := range p.Lives {
				p.Lives[j].Epoch = 1<<20 + d.Uint64N(1<<40)
			}
		}
	}
}

func (d drawer) net() Net {
	n := Net{
		Latency:      d.time(2*time.Microsecond, time.Millisecond),
		SharedLoss:   d.ratio(70, 20*Percent),
		Loss:         d.ratio(30, 30*Percent),
		UnicastLoss:  d.ratio(50, 30*Percent),
		Run:          pick(d, 1, 1, 1, 2, 8),
		Duplicate:    d.ratio(60, 10*Percent),
		Reorder:      d.ratio(60, 20*Percent),
		ReorderDepth: d.between(1, 16),
	}
	if d.chance(40) {
		n.Jitter = d.time(time.Microsecond, 2*n.Latency)
	}
	if d.chance(30) {
		n.Scatter = d.time(time.Microsecond, 2*n.Latency)
	}
	if d.chance(40) {
		n.Bandwidth = int64(pick(d, 10, 100, 1000)) * 1_000_000
		n.Egress = d.between(1, 100)
	}
	return n
}

func (d drawer) publisher(packetSize int, faults time.Duration) Publisher {
	p := Publisher{
		PacketSize: packetSize, Trains: Trains{MaxTrain: pick(d, 1, 2, 8, 16), EqualTrains: d.chance(50)},
		Window: pick(d, 16, 16, 64, 64, 256),
		Topics: pick(d, 1, 1, 2, 5, MaxTopics), Writers: pick(d, 1, 1, 1, 2, 3), Burst: pick(d, 1, 5, 20, 60),
		Gap: d.time(5*time.Microsecond, 3*time.Millisecond),
	}
	if d.chance(30) {
		p.Flow = FlowNone
	}
	if d.chance(30) {
		p.Rate = int64(d.between(1, 100)) * 1_000_000
	}
	if d.chance(30) {
		p.Linger = 50 * time.Microsecond
	}
	if d.chance(30) {
		p.Completion = d.time(time.Microsecond, 100*time.Microsecond)
	}
	lo := d.between(0, 100)
	p.Size = [2]int{lo, lo + pick(d, 0, 10, 500)}
	if d.chance(30) {
		p.Large, p.LargeBytes = d.ratio(0, 30*Percent), pick(d, 1000, 5000, 20000)
	}
	if d.chance(40) {
		p.Full = d.between(1, p.MaxTrain)
	}
	p.Abandon = d.ratio(80, 50*Percent)
	p.Refuse = d.ratio(50, 90*Percent)
	if d.chance(30) {
		p.Silence = d.time(300*time.Millisecond, 2*time.Second)
	}
	life := Life{Messages: d.between(1, 150), After: d.time(time.Microsecond, time.Millisecond)}
	for d.chance(20) {
		x := life
		x.Stop = pick(d, StopEnd, StopKill)
		x.For = d.time(200*time.Microsecond, faults)
		p.Lives = append(p.Lives, x)
		life.After = d.time(10*time.Microsecond, 100*time.Millisecond)
	}
	life.Stop = pick(d, StopEnd, StopEnd, StopNever, StopKill)
	life.For = d.time(200*time.Microsecond, faults)
	p.Lives = append(p.Lives, life)
	return p
}

func (d drawer) subscriber(o *Options) Subscriber {
	packetSize := o.Publishers[0].PacketSize
	s := Subscriber{
		Window: packetSize * pick(d, 16, 32, 32, 100), Buffer: pick(d, 16, 32, 128, 512), Topics: pick(d, 1, 2, 5, MaxTopics),
		InPlace: true, Batch: pick(d, 1, 4, 64),
	}
	s.Streams = 2*len(o.Publishers) + d.between(0, 3)
	s.Memory = max(s.Window, 2*s.Streams*packetSize*pick(d, 8, 12, 40))
	if d.chance(40) {
		s.InPlace = d.chance(30)
		for range d.between(1, 3) {
			r := Reader{Block: d.chance(60)}
			if d.chance(50) {
				r.Delay = d.time(time.Microsecond, 50*time.Microsecond)
			}
			s.Readers = append(s.Readers, r)
		}
	}
	if d.chance(40) {
		s.Service = d.time(100*time.Nanosecond, 10*time.Microsecond)
	}
	if d.chance(40) {
		s.Wake = d.time(time.Microsecond, 50*time.Microsecond)
	}
	if d.chance(40) {
		s.Late = d.time(time.Microsecond, time.Millisecond)
	}
	if d.chance(10) {
		s.Own = d.between(1, len(o.Publishers))
	}
	if d.chance(10) {
		s.Max = d.between(100, 5000)
	}
	if d.chance(10) {
		s.Deadline = d.time(2*time.Millisecond, time.Second)
	}
	stay := Stay{}
	if d.chance(30) {
		stay.After = d.time(10*time.Microsecond, o.Faults)
	}
	for d.chance(15) {
		x := stay
		x.Stop, x.For = pick(d, StopEnd, StopKill), d.time(200*time.Microsecond, o.Faults)
		s.Stays = append(s.Stays, x)
		stay.After = d.time(10*time.Microsecond, 10*time.Millisecond)
	}
	stay.Stop = StopNever
	s.Stays = append(s.Stays, stay)
	for d.chance(15) {
		s.Pauses = append(s.Pauses,
			Pause{At: d.time(100*time.Microsecond, o.Faults), For: d.time(100*time.Microsecond, time.Second)})
	}
	return s
}
