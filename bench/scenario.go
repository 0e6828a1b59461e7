package bench

import (
	"context"
	"fmt"
	"slices"

	"github.com/fanfaremq/fanfare/bench/contenders"
	"github.com/fanfaremq/fanfare/bench/worker"
)

// Scenarios are the names of what can be measured.
func Scenarios() []string {
	return []string{"throughput", "latency", "sizes", "fanout", "loss", "burst", "idle", "all", "aims"}
}

// Run measures a scenario. When it fails or ctx ends, with its cause as the error, the
// result is what was measured before, and says that it is incomplete; it is nil if there
// is nothing.
func (b *Bench) Run(ctx context.Context, scenario string) (*Result, error) {
	before := readConditions()
	b.handovers = nil
	r := &Result{Head: Head{Scenario: scenario, Host: ThisHost(), Settings: b.Settings}}
	err := b.measure(ctx, r)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	if err != nil && len(r.Points)+len(r.Parts) == 0 {
		return nil, err
	}
	before.handovers = append(before.handovers, b.handovers...)
	readConditions().judge(&r.Host, before)
	if err != nil {
		r.Incomplete = err.Error()
	}
	return r, err
}

func (b *Bench) measure(ctx context.Context, r *Result) error {
	switch r.Scenario {
	case "throughput":
		return b.contest(ctx, r, r.Scenario, worker.LoadFull)
	case "latency":
		return b.contest(ctx, r, r.Scenario, worker.LoadPaced)
	case "burst":
		return b.contest(ctx, r, r.Scenario, worker.LoadBurst)
	case "idle":
		return b.contest(ctx, r, r.Scenario, worker.LoadIdle)
	case "sizes":
		return b.sweep(ctx, r, b.sizes())
	case "fanout":
		return b.sweep(ctx, r, b.fanouts())
	case "loss":
		return b.sweep(ctx, r, b.losses())
	case "all":
		return b.all(ctx, r)
	case "aims":
		return b.aims(ctx, r)
	}
	return fmt.Errorf("no scenario is called %q", r.Scenario)
}

// Sizes, Fanouts and Losses are what sweeps go through.
var (
	Sizes   = []int{32, 64, 128, 256, 512, 1024, 4096, 16384, 65536}
	Fanouts = []int{1, 2, 4, 8, 16}
	Losses  = []float64{0, 0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3}
)

// abovePacket is how much shorter than a datagram a message is that just does not fit it:
// of the packet 70 bytes are Fanfare's own (docs/protocol.md §2.18).
const abovePacket = 64

// sizes are message sizes by datagram sizes, with one just above what fits.
func (b *Bench) sizes() (points []Settings) {
	mtus := b.MTUs
	if len(mtus) == 0 {
		mtus = b.DefaultMTUs()
	}
	for _, mtu := range mtus {
		sizes := append(slices.Clone(Sizes), mtu-abovePacket)
		slices.Sort(sizes)
		for _, size := range slices.Compact(sizes) {
			s := b.Settings
			s.MTU, s.Size = mtu, size
			points = append(points, s)
		}
	}
	return points
}

// fanouts are numbers of subscribers: processes, and then goroutines of one process.
func (b *Bench) fanouts() (points []Settings) {
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
	return points
}

// losses are shares of packets that are lost. Baselines repair nothing, and have none of it.
func (b *Bench) losses() (points []Settings) {
	for _, loss := range Losses {
		s := b.Settings
		s.Loss, s.Baselines = loss, nil
		points = append(points, s)
	}
	return points
}

// sweep measures throughput at each point.
func (b *Bench) sweep(ctx context.Context, r *Result, points []Settings) error {
	for i, s := range points {
		at := *b
		at.Settings = s
		at.Baselines = at.fitting(r.Scenario, at.Baselines, at.Contenders)
		at.Progress = func(what string) { b.say("%s, point %d of %d: %s", r.Scenario, i+1, len(points), what) }
		if err := at.contest(ctx, r, s.pointName(r.Scenario), worker.LoadFull); err != nil {
			return err
		}
	}
	return nil
}

// Shares of the settings' time that scenarios of the suite take: sweeps have
// many points.
const (
	sweepRuns    = 3
	sweepSeconds = 0.5
)

// manyShapes are those of many topics, publishers and subscriptions that the suite goes through.
var manyShapes = []worker.Shape{
	{Topics: 16, Order: worker.OrderRound, Goroutines: 1, Buses: 1},
	{Topics: 1000, Order: worker.OrderRound, Goroutines: 1, Buses: 1},
	{Topics: 10_000, Order: worker.OrderRound, Goroutines: 1, Buses: 1},
	{Topics: 1000, Order: worker.OrderZipf, Goroutines: 1, Buses: 1},
	{Topics: 1000, Order: worker.OrderBursts, Goroutines: 1, Buses: 1},
	{Topics: 1, Order: worker.OrderRound, Goroutines: 1, Buses: 8},
	{Topics: 1, Order: worker.OrderRound, Goroutines: 1, Buses: 32},
	{Topics: 1, Order: worker.OrderRound, Goroutines: 1, Buses: 64},
	{Topics: 1, Order: worker.OrderRound, Goroutines: 1, Buses: 1, Extra: 10_000},
}

// all measures every scenario.
func (b *Bench) all(ctx context.Context, r *Result) error {
	sweep := b.Settings
	sweep.Runs = min(b.Runs, sweepRuns)
	sweep.Seconds = min(b.Seconds, sweepSeconds)
	single := b.Settings
	// One packet a message tells nothing new at each of many points, and cannot
	// hold the rate of latency on most machines.
	single.Baselines = slices.DeleteFunc(slices.Clone(b.Baselines), func(name string) bool { return name == contenders.Naive })
	sweep.Baselines = single.Baselines
	lossy := single
	if lossy.Loss == 0 {
		lossy.Loss = 0.01
	}
	large := b.Settings
	large.Size = 1024
	type step struct {
		scenario string
		settings Settings
	}
	steps := []step{{"throughput", b.Settings}, {"throughput", large}}
	for _, shape := range manyShapes {
		many := sweep
		many.Shape = shape
		steps = append(steps, step{"throughput", many})
	}
	steps = append(steps, []step{
		{"sizes", sweep}, {"fanout", sweep}, {"loss", sweep},
		{"latency", single}, {"latency", lossy}, {"burst", single}, {"idle", single},
	}...)
	for i, step := range steps {
		one := Bench{Settings: step.settings, Exe: b.Exe, Contenders: b.Contenders}
		one.Baselines = one.fitting(step.scenario, one.Baselines, one.Contenders)
		one.Progress = func(what string) { b.say("step %d of %d: %s", i+1, len(steps), what) }
		if err := r.add(ctx, &one, step.scenario); err != nil {
			return err
		}
	}
	return nil
}

// add measures a scenario, and adds what there is of it as a part.
func (r *Result) add(ctx context.Context, b *Bench, scenario string) error {
	part, err := b.Run(ctx, scenario)
	if part != nil {
		r.Parts = append(r.Parts, part)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", scenario, err)
	}
	return nil
}

// pointName says where in a sweep these settings are.
func (s *Settings) pointName(scenario string) string {
	switch scenario {
	case "sizes":
		return fmt.Sprintf("%d bytes at MTU %d", s.Size, s.MTU)
	case "fanout":
		if s.Together {
			return fmt.Sprintf("%d in one process", s.Subs)
		}
		return fmt.Sprintf("%d processes", s.Subs)
	}
	return fmt.Sprintf("loss %g %%", 100*s.Loss)
}
