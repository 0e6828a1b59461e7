package bench

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// Host describes the machine and time of a measurement.
type Host struct {
	Date       string `json:"date"` // RFC 3339, UTC
	CPU        string `json:"cpu"`
	Cores      int    `json:"cores"`
	GOMAXPROCS int    `json:"gomaxprocs"`
	OS         string `json:"os"`
	Arch       string `json:"arch"`
	Kernel     string `json:"kernel"`
	Go         string `json:"go"`
	Fanfare    string `json:"fanfare"`
	// Load is the average number of runnable processes in the minute before (proc_loadavg(5)): other use of the machine.
	Load float64 `json:"load_1m"`
	// Handover is the time in ns that a cache line takes from one processor to another and back, measured
	// before each run, and before and after the scenario. It is the minimum for passing data between two
	// processes, and several times as long if the processors share no cache; the kernel or a hypervisor may
	// select such processors. Zero if unknown, as with one processor, and before Bench.Run.
	Handover Spread `json:"handover_ns"`
	// Steal is the share of processor time that the hypervisor took during the scenario.
	Steal float64 `json:"steal_share"`
}

// thisHost describes the host.
func thisHost() Host {
	h := Host{
		Date: time.Now().UTC().Format(time.RFC3339), CPU: cpuModel(),
		Cores: runtime.NumCPU(), GOMAXPROCS: runtime.GOMAXPROCS(0),
		OS: runtime.GOOS, Arch: runtime.GOARCH, Kernel: firstLine("/proc/sys/kernel/osrelease"), Go: runtime.Version(), Fanfare: "(devel)",
	}
	first, _, _ := strings.Cut(firstLine("/proc/loadavg"), " ")
	h.Load, _ = strconv.ParseFloat(first, 64)
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		h.Fanfare = info.Main.Version
	}
	return h
}

// warnings are conditions that make the host slower than its description suggests.
func (h Host) warnings() (list []string) {
	if h.Handover.Max > moved*h.Handover.Min {
		list = append(list, fmt.Sprintf("a cache line took %.0f to %.0f ns from one processor to another and back, median %.0f: the kernel or a hypervisor moved threads between near and far processors; compare only with neighbouring runs",
			h.Handover.Min, h.Handover.Max, h.Handover.Median))
	}
	if h.Steal > muchSteal {
		list = append(list, fmt.Sprintf("the hypervisor took %.0f %% of processor time during the runs: measure again", 100*h.Steal))
	}
	return list
}

const (
	moved     = 2
	muchSteal = 0.05
)

func firstLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(line)
}

// cpuModel is the name of the processor (proc_cpuinfo(5)), or its architecture.
func cpuModel() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if key, val, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(val)
		}
	}
	return runtime.GOARCH
}
