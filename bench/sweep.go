package bench

import (
	"context"
	"slices"

	"github.com/fanfaremq/fanfare/bench/contenders"
	"github.com/fanfaremq/fanfare/bench/worker"
)

// Sweep is a throughput at several settings.
type Sweep struct {
	Head
	Points []SweepPoint
}

// SweepPoint is the throughput at one of them.
type SweepPoint struct {
	MTU      int
	Size     int
	Subs     int
	Together bool
	Loss     float64
	Receive  worker.Receive
	*Throughput
}

// Sizes, Fanouts and Losses are what sweeps go through.
var (
	Sizes   = []int{32, 64, 128, 256, 512, 1024, 4096, 16384, 65536}
	Fanouts = []int{1, 2, 4, 8, 16}
	Losses  = []float64{0, 0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3}
)

// SizeSweep measures throughput by message size and datagram size.
func (b *Bench) SizeSweep(ctx context.Context) (*Sweep, error) {
	var points []Settings
	mtus := b.MTUs
	if len(mtus) == 0 {
		mtus = b.DefaultMTUs()
	}
	for _, mtu := range mtus {
		for _, size := range Sizes {
			s := b.Settings
			s.MTU, s.Size = mtu, size
			points = append(points, s)
		}
	}
	return b.sweep(ctx, "sizes", points)
}

// FanoutSweep measures throughput by subscribers: processes, and then goroutines
// of one process.
func (b *Bench) FanoutSweep(ctx context.Context) (*Sweep, error) {
	var points []Settings
	for _, together := range []bool{false, true} {
		if b.InProcess() && !together {
			continue
		}
		for _, n := range Fanouts {
			s := b.Settings
			s.Subs, s.Together = n, together
			if together {
				// In one process each subscriber is a goroutine with a cursor. The
				// baselines have processes alone.
				s.Receive = worker.ReceiveBatch
				s.Baselines = slices.DeleteFunc(slices.Clone(s.Baselines), func(name string) bool { return name != contenders.Channel })
			}
			points = append(points, s)
		}
	}
	return b.sweep(ctx, "fanout", points)
}

// LossSweep measures throughput by loss. Baselines, which repair nothing, have
// none of it.
func (b *Bench) LossSweep(ctx context.Context) (*Sweep, error) {
	var points []Settings
	for _, loss := range Losses {
		s := b.Settings
		s.Loss = loss
		s.Baselines = nil
		points = append(points, s)
	}
	return b.sweep(ctx, "loss", points)
}

func (b *Bench) sweep(ctx context.Context, scenario string, points []Settings) (*Sweep, error) {
	sw := &Sweep{Head: b.head(scenario)}
	for i, s := range points {
		s.Baselines = slices.DeleteFunc(slices.Clone(s.Baselines), func(name string) bool { return s.CheckBaseline(scenario, name, b.Contenders) != nil })
		at := *b
		at.Settings = s
		at.Progress = func(what string) { b.say("%s, point %d of %d: %s", scenario, i+1, len(points), what) }
		t, err := at.throughput(ctx, pointName(scenario, &s), at.contestants())
		if !t.empty() {
			sw.Points = append(sw.Points, SweepPoint{s.MTU, s.Size, s.Subs, s.Together, s.Loss, s.Receive, t})
		}
		if err != nil {
			return sw, err
		}
	}
	return sw, nil
}

func (s *Sweep) empty() bool { return len(s.Points) == 0 }

// MarshalJSON writes the settings once and the points in a list.
func (s *Sweep) MarshalJSON() ([]byte, error) {
	m := s.Head.fields()
	points := []any{}
	for _, p := range s.Points {
		one := p.Throughput.contest()
		one["receive"] = p.Receive
		one["mtu"], one["size"], one["subs"], one["subs_in_one_process"], one["loss"] = p.MTU, p.Size, p.Subs, p.Together, p.Loss
		points = append(points, one)
	}
	m["points"] = points
	return marshal(m)
}
