package sim

import (
	"cmp"
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	seedFlag  = flag.Uint64("sim.seed", 0, "run only this seed, and print its options and a trace")
	runsFlag  = flag.Int("sim.runs", 0, "number of seeds to run; default $SIM_RUNS or enough for a few seconds")
	firstFlag = flag.Uint64("sim.first", 1, "first seed to run")
	traceFlag = flag.Bool("sim.trace", false, "print a trace of each run")
)

// Runs allocate much short-lived memory: collect it rarely.
func TestMain(m *testing.M) {
	debug.SetGCPercent(800)
	os.Exit(m.Run())
}

// runs returns how many seeds TestSeeds runs.
func runs(t *testing.T) int {
	n := *runsFlag
	if s := os.Getenv("SIM_RUNS"); n == 0 && s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatalf("SIM_RUNS: %v", err)
		}
	}
	switch {
	case n > 0:
		return n
	case testing.Short():
		return 300
	}
	return 1000 // .ci/run runs 40,000 more
}

func TestSeeds(t *testing.T) {
	t.Parallel()
	if *seedFlag != 0 {
		o := Draw(*seedFlag)
		t.Logf("options %v", o)
		if *traceFlag {
			o.Trace = os.Stdout
		}
		r, err := Run(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Log(r)
		return
	}
	start := time.Now()
	all, failures := sweep(*firstFlag, runs(t))
	for _, f := range failures {
		t.Errorf("go test ./test/sim -run TestSeeds -sim.seed=%d\n%v", f.Options.Seed, f)
	}
	for what, n := range map[string]uint64{
		"packets were kept where they arrived": all.Kept, "topics began with state": all.States,
		"packets were fetched that were sent before their subscriber joined": all.Receiver.History,
		"readers jumped": all.Jumps, "readers were evicted": all.Evicted, "messages were replaced": all.Replaced,
		"names were learned": all.Named, "patterns waited for names": all.Ahead, "lists were complete": all.Listed,
		"messages were abandoned": all.Abandoned, "packets were requested with two legs": all.Requested, "packets were unpacked": all.Receiver.Packed,
		"publishers were blocked": all.Sender.FlowBlocked, "subscribers were released": all.Released, "subscribers were silent": all.Silent,
	} {
		if n == 0 {
			t.Errorf("no %s", what)
		}
	}
	if all.Replies == 0 || all.Sender.Recalled == 0 || all.Sender.RepliesDuplicate == 0 {
		t.Errorf("%d replies arrived, %d were recalled, %d duplicate packets of replies", all.Replies, all.Sender.Recalled, all.Sender.RepliesDuplicate)
	}
	if all.Answered == 0 || all.Unsupported == 0 {
		t.Errorf("%d topics have complete answers, %d reports of unreadable packets", all.Answered, all.Unsupported)
	}
	t.Logf("%.0f seeds/s: %v", float64(all.Runs)/time.Since(start).Seconds(), all)
}

// Seeds that have found a fault of the core or of the simulator.
func TestRegressionSeeds(t *testing.T) {
	for _, seed := range []uint64{39228, 310303, 405827, 424286, 460455, 465072} {
		if _, err := Run(Draw(seed)); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

// sweep runs n seeds from first on, on all processors, and returns the first few failures.
func sweep(first uint64, n int) (*Report, []*failure) {
	var (
		all      Report
		failures []*failure
		mu       sync.Mutex
		next     atomic.Uint64
		wg       sync.WaitGroup
	)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				i := next.Add(1) - 1
				mu.Lock()
				enough := i >= uint64(n) || len(failures) >= 3
				mu.Unlock()
				if enough {
					return
				}
				r, err := Run(Draw(first + i))
				mu.Lock()
				if err != nil {
					failures = append(failures, err.(*failure))
				}
				all.Add(r)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.SortFunc(failures, func(a, b *failure) int { return cmp.Compare(a.Options.Seed, b.Options.Seed) })
	return &all, failures
}

func TestSimple(t *testing.T) {
	for _, loss := range []Ratio{0, Percent, 10 * Percent, 30 * Percent} {
		o := Simple(1, 3, 20000)
		o.Net.Loss = loss
		o.Net.Duplicate, o.Net.Reorder, o.Net.ReorderDepth = 2*Percent, 5*Percent, 16
		mustRun(t, o)
	}
}

// A pattern that is added while streams are busy gets every message from there on, and no packet
// waits for a name before. docs/protocol §9.9.
func TestLatePattern(t *testing.T) {
	for _, loss := range []Ratio{0, 5 * Percent} {
		for seed := range uint64(20) {
			o := Simple(seed, 2, 5000)
			o.Net.Loss, o.Net.UnicastLoss = loss, loss
			o.Publishers[0].Topics = 12
			for i := range o.Subscribers {
				x := &o.Subscribers[i]
				if x.InPlace = i == 0; !x.InPlace {
					x.Readers = []Reader{{Block: true}}
				}
				x.Patterns = []Pattern{{At: time.Duration(seed+1) * 150 * time.Microsecond, Text: ">"}}
				x.Stays[0].After = 1500 * time.Microsecond // topics named before have no name here
			}
			r := mustRun(t, o)
			if r.Ahead == 0 || r.Named == 0 {
				t.Errorf("seed %d: names were learned in advance %d times, %d in total", seed, r.Ahead, r.Named)
			}
		}
	}
}
