package worker

import (
	"bytes"
	"os"
	"strconv"
)

// peakMemory reads VmHWM (proc_pid_status(5)), in bytes.
func peakMemory() uint64 {
	text, _ := os.ReadFile("/proc/self/status")
	for line := range bytes.Lines(text) {
		if f := bytes.Fields(line); len(f) > 1 && string(f[0]) == "VmHWM:" {
			kb, _ := strconv.ParseUint(string(f[1]), 10, 64)
			return kb << 10
		}
	}
	return 0
}
