package inspect

import (
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/fanfaremq/fanfare/internal/report"
)

// registry has the buses of a process, and its socket while there are any.
type registry struct {
	sources atomic.Pointer[[]Source] // replaced under mu; the lists are immutable

	mu     sync.Mutex
	server *server // under mu; nil: there is no bus, or the socket could not be made
}

// process is this process's registry.
var process registry

// Register makes a bus visible to other processes on this host until remove is called, which may be called more than
// once. If the socket cannot be made, it logs the reason for debugging, or as a warning if another user is the cause,
// and the next bus retries. The last remove returns when the socket is removed and all goroutines have ended.
func Register(s Source, log *slog.Logger) (remove func()) { return process.add(s, log) }

func (r *registry) add(s Source, log *slog.Logger) (remove func()) {
	r.mu.Lock()
	var err error
	if r.server == nil {
		r.server, err = openServer(r.list)
	}
	list := append(slices.Clone(r.list()), s)
	r.sources.Store(&list)
	r.mu.Unlock()
	var foreign *ForeignError
	switch {
	case errors.As(err, &foreign):
		report.InspectDirForeign.Log(log, "err", err)
	case err != nil:
		report.NoInspectSocket.Log(log, "err", err)
	}
	return sync.OnceFunc(func() { r.remove(s) })
}

func (r *registry) remove(s Source) {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := slices.DeleteFunc(slices.Clone(r.list()), func(x Source) bool { return x == s })
	r.sources.Store(&list)
	if len(list) == 0 && r.server != nil {
		r.server.close()
		r.server = nil
	}
}

// list returns the current buses.
func (r *registry) list() []Source {
	if list := r.sources.Load(); list != nil {
		return *list
	}
	return nil
}
