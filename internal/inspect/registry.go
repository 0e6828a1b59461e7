package inspect

import (
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/fanfaremq/fanfare/internal/report"
)

// registry is the buses of a process, and the socket while there are some.
type registry struct {
	sources atomic.Pointer[[]Source] // replaced under mu, the lists themselves never change

	mu     sync.Mutex
	server *server // under mu; nil: there is no bus, or no socket could be made
}

// process is this process's registry.
var process registry

// Register shows a bus to others on this host until remove is called, which may be called more than once. Where no
// socket can be made a line at debug level says why, or a warning where that is because of another user, and the
// next bus tries again. The last remove returns when the socket and all goroutines are gone.
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

// list is the buses of just now.
func (r *registry) list() []Source {
	if list := r.sources.Load(); list != nil {
		return *list
	}
	return nil
}
