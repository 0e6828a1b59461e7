// Package elsewhere reads what the processes of other hosts say of their buses: where a
// fanfare web runs there, which serves it beside its page.
//
// It is GET /snapshots: a JSON object for each process, one a line, with the path of its
// socket and an inspect.Snapshot, or an error. Nothing can be changed by it.
package elsewhere

import (
	"cmp"
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync"

	"github.com/fanfaremq/fanfare/internal/inspect"
)

// Path is where a server has the snapshots.
const Path = "/snapshots"

// Here is the place that stands for all processes of this host, beside others.
const Here = "here"

// address is the address of another host that a place names; a path of this host is none.
func address(place string) (addr string, ok bool) {
	addr = strings.TrimSuffix(strings.TrimPrefix(place, "http://"), "/")
	if strings.Contains(addr, "/") {
		return "", false
	}
	if _, port, err := net.SplitHostPort(addr); err != nil || port == "" {
		return "", false
	}
	_, err := os.Lstat(place)
	return addr, err != nil
}

// Check says which place there is not, as far as that is known without asking. Without places it is
// whether processes of this host can be asked.
func Check(places []string) error {
	here, paths, others := divide(places)
	var err error
	if here {
		_, err = inspect.List()
	}
	if len(paths) > 0 {
		_, err = inspect.List(paths...)
	}
	if here && len(others) > 0 && errors.Is(err, inspect.ErrOff) {
		return nil
	}
	return err
}

// divide says what places are: all of this host, paths here, and addresses of other hosts.
func divide(places []string) (here bool, paths, others []string) {
	for _, p := range places {
		if addr, ok := address(p); ok {
			others = append(others, addr)
		} else if p == Here {
			here = true
		} else {
			paths = append(paths, p)
		}
	}
	return here || len(places) == 0, paths, others
}

// ReadAll is inspect.ReadAll of places: sockets and directories of this host, addresses
// HOST:PORT of a fanfare web on others, and Here. All are read side by side.
func ReadAll(ctx context.Context, places ...string) ([]inspect.Seen, error) {
	here, paths, others := divide(places)
	seen := make([][]inspect.Seen, len(others))
	var wait sync.WaitGroup
	for i, addr := range others {
		wait.Go(func() {
			var err error
			if seen[i], err = read(ctx, addr); err != nil {
				seen[i] = []inspect.Seen{{Socket: addr, Err: err}}
			}
		})
	}
	var all []inspect.Seen
	var err error
	if here {
		all, err = inspect.ReadAll(ctx)
	}
	if len(paths) > 0 {
		more, pathErr := inspect.ReadAll(ctx, paths...)
		all, err = append(all, more...), cmp.Or(err, pathErr)
	}
	wait.Wait()
	for _, x := range seen {
		all = append(all, x...)
	}
	if len(others) > 0 && errors.Is(err, inspect.ErrOff) {
		err = nil
	}
	return all, err
}
