package bench

import (
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
	// Limits on socket buffers, in bytes, which the kernel doubles for its own
	// accounts (socket(7)). A process with CAP_NET_ADMIN may go beyond. Zero
	// where the system does not tell.
	ReceiveMax int `json:"rmem_max"`
	SendMax    int `json:"wmem_max"`
	// Load is how many processes wanted to run during the last minute before
	// (proc_loadavg(5)): what else uses the machine.
	Load float64 `json:"load_1m"`
}

// ThisHost describes the host.
func ThisHost() Host {
	h := Host{
		Date: time.Now().UTC().Format(time.RFC3339), CPU: cpuModel(), Cores: runtime.NumCPU(), GOMAXPROCS: runtime.GOMAXPROCS(0),
		OS: runtime.GOOS, Arch: runtime.GOARCH, Kernel: firstLine("/proc/sys/kernel/osrelease"), Go: runtime.Version(), Fanfare: "(devel)",
	}
	h.ReceiveMax, _ = strconv.Atoi(firstLine("/proc/sys/net/core/rmem_max"))
	h.SendMax, _ = strconv.Atoi(firstLine("/proc/sys/net/core/wmem_max"))
	first, _, _ := strings.Cut(firstLine("/proc/loadavg"), " ")
	h.Load, _ = strconv.ParseFloat(first, 64)
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		h.Fanfare = info.Main.Version
	}
	return h
}

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
