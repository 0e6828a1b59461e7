package bench

import (
	"strconv"
	"strings"
)

// steal is a reading of the time that the hypervisor took, and of all time, in clock ticks of all
// processors (proc_stat(5)).
type steal struct{ stolen, all uint64 }

func readSteal() (s steal) {
	fields := strings.Fields(firstLine("/proc/stat"))
	for i := 1; i <= 8 && i < len(fields); i++ { // guest time follows, and is included in user time
		n, _ := strconv.ParseUint(fields[i], 10, 64)
		if s.all += n; i == 8 {
			s.stolen = n
		}
	}
	return s
}

// share is the hypervisor's share since an earlier reading.
func (s steal) share(before steal) float64 {
	if s.all <= before.all || s.stolen < before.stolen {
		return 0
	}
	return float64(s.stolen-before.stolen) / float64(s.all-before.all)
}
