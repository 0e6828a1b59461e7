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

// Host is where a measurement was made, and when.
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
	// Load is how many processes wanted to run during the last minute before
	// (proc_loadavg(5)): what else uses the machine.
	Load float64 `json:"load_1m"`
	// Handover is how many ns a line of the cache takes from one processor to another and back, measured before each
	// run, and before and after the scenario. What two processes hand each other takes at least that long. It is
	// several times as much where the processors share no cache: the kernel, or a hypervisor, may run the threads
	// there. Zero where it is not known, as with one processor, and before Bench.Run.
	Handover Spread `json:"handover_ns"`
	// Steal is the share of all processors' time that the hypervisor took during the scenario.
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

// doubts say what makes the host slower than it looks; none if nothing does.
func (h Host) doubts() (list []string) {
	if h.Handover.Max > moved*h.Handover.Min {
		list = append(list, fmt.Sprintf("a line of the cache took %.0f to %.0f ns from one processor to another and back, median %.0f, as where the kernel or a hypervisor moves what runs to processors that are nearer or further apart: compare with neighbouring runs only",
			h.Handover.Min, h.Handover.Max, h.Handover.Median))
	}
	if h.Steal > muchStolen {
		list = append(list, fmt.Sprintf("the hypervisor took %.0f %% of the processors' time meanwhile: measure again", 100*h.Steal))
	}
	return list
}

const (
	moved      = 2
	muchStolen = 0.05
)

func firstLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(line)
}

// cpuModel is the processor's name (proc_cpuinfo(5)), or its architecture.
func cpuModel() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if key, val, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(val)
		}
	}
	return runtime.GOARCH
}
