package inspect

import (
	"cmp"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"
)

const module = "github.com/fanfaremq/fanfare"

var began = time.Now()

// thisProcess returns the identity of this process.
var thisProcess = sync.OnceValue(func() Process {
	p := Process{PID: os.Getpid(), User: os.Geteuid(), Started: began, Fanfare: fanfareVersion(), Go: runtime.Version()}
	p.Host, _ = os.Hostname()
	p.Program = filepath.Base(os.Args[0])
	if path, err := os.Executable(); err == nil {
		p.Program = filepath.Base(path)
	}
	return p
})

// fanfareVersion returns the version of this module in the running program.
func fanfareVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "(devel)"
	}
	v := ""
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == module {
			if v = m.Version; m.Replace != nil && m.Replace.Version != "" {
				v = m.Replace.Version
			}
		}
	}
	return cmp.Or(v, "(devel)")
}

// thisHost returns the limits of this host.
func thisHost() Host {
	text, _ := os.ReadFile("/proc/sys/net/core/rmem_max") // Linux only
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return Host{}
	}
	return Host{ReceiveBufferMax: n}
}
