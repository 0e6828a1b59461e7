package bench

import (
	"strconv"
	"strings"
)

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
