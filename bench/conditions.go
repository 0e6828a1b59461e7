package bench

import (
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fanfaremq/fanfare/bench/worker"
)

// conditions are how fast the processors are, and what the hypervisor has taken of
// them: read before and after a scenario. A processor of a virtual machine may
// share its core with somebody else's, which /proc does not tell.
type conditions struct {
	speeds []float64
	stolen stolen
	// handovers are in ns. Bench.run adds one before each run: they change from one second to the next.
	handovers []float64
}

func readConditions() conditions {
	return conditions{processorSpeeds(), readStolen(), handover()}
}

// judge writes what became of the host since before.
func (c conditions) judge(h *Host, before conditions) {
	h.Speed = spreadOf(append(before.speeds, c.speeds...))
	h.Handover = spreadOf(append(before.handovers, c.handovers...))
	h.Steal = c.stolen.share(before.stolen)
}

const (
	speedRounds = 10
	speedFor    = 5 * time.Millisecond // of a processor's time, each
)

// processorSpeeds is how many million messages a second each processor makes,
// copies and checks, while all do, again and again.
func processorSpeeds() (all []float64) {
	for range speedRounds {
		var wg sync.WaitGroup
		rates := make([]float64, runtime.GOMAXPROCS(0))
		begin := make(chan struct{})
		for i := range rates {
			wg.Go(func() {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				<-begin
				rates[i] = makeAndCheck(speedFor)
			})
		}
		close(begin)
		wg.Wait()
		all = append(all, rates...)
	}
	return all
}

// makeAndCheck is the speed of one of them. Its thread may have to wait for a
// processor, which does not count.
func makeAndCheck(d time.Duration) float64 {
	const size = 64
	src, msg := worker.NewSource(size), make([]byte, size)
	check := worker.NewCheck(size, false, false, false, func() {})
	start := threadTime()
	for threadTime()-start < d {
		for range 1024 {
			copy(msg, src.Next())
			check.Message(msg)
		}
	}
	return 1e3 * float64(check.Received()) / float64(threadTime()-start)
}

// stolen is a reading of how much time the hypervisor took, and of all time, in
// clock ticks of all processors (proc_stat(5)).
type stolen struct{ taken, all uint64 }

func readStolen() (s stolen) {
	fields := strings.Fields(firstLine("/proc/stat"))
	for i := 1; i <= 8 && i < len(fields); i++ { // guest time, behind them, is in user time
		n, _ := strconv.ParseUint(fields[i], 10, 64)
		if s.all += n; i == 8 {
			s.taken = n
		}
	}
	return s
}

// share is the hypervisor's share since an earlier reading.
func (s stolen) share(before stolen) float64 {
	if s.all <= before.all || s.taken < before.taken {
		return 0
	}
	return float64(s.taken-before.taken) / float64(s.all-before.all)
}
