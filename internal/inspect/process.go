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

// thisProcess says which process this is.
var thisProcess = sync.OnceValue(func() Process {
	p := Process{PID: os.Getpid(), User: os.Geteuid(), Started: began, Fanfare: fanfareVersion(), Go: runtime.Version()}
	p.Host, _ = os.Hostname()
	p.Program = filepath.Base(os.Args[0])
	if path, err := os.Executable(); err == nil {
		p.Program = filepath.Base(path)
	}
	return p
})

// fanfareVersion is that of this module, in whatever program it is.
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

// thisHost says what this host grants.
func thisHost() Host {
	text, _ := os.ReadFile("/proc/sys/net/core/rmem_max") // Linux only
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return Host{}
	}
	return Host{ReceiveBufferMax: n}
}
