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
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/fanfaremq/fanfare/internal/inspect"
)

// Path is where a server has the snapshots.
const Path = "/snapshots"

// Here is the place that stands for all processes of this host, beside others.
const Here = "here"

// What is what a place is, for people.
const What = `a place is the socket of a process, a directory with some, "here", or HOST:PORT of a fanfare web (port 9465, unless it was told another)`

// ErrNotHere says that no place is of this host.
var ErrNotHere = errors.New("this fanfare web shows other hosts only, and passes on what its own host says only: ask them, or name here as a place beside them")

// address is the address of another host that a place names, also as the URL of its page or of
// what it serves; a path of this host is none.
func address(place string) (addr string, ok bool) {
	addr, url := strings.CutPrefix(place, "http://")
	if url {
		addr = strings.TrimSuffix(addr, Path)
	}
	addr = strings.TrimSuffix(addr, "/")
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
	for _, addr := range others {
		host, port, _ := net.SplitHostPort(addr)
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || strings.ContainsAny(host, "@?#\\ ") {
			return fmt.Errorf("%s is no address with a port from 1 to 65535: %s", addr, What)
		}
	}
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
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %s", err, What)
	}
	return err
}

// LooksLike reports whether a text that is taken for something else may be meant as a place.
func LooksLike(text string) bool {
	addr, ok := address(text)
	_, port, _ := net.SplitHostPort(addr)
	_, err := strconv.ParseUint(port, 10, 16)
	return ok && err == nil || strings.Contains(text, "/")
}

// divide says what places are: all of this host, paths here, and addresses of other hosts.
func divide(places []string) (here bool, paths, others []string) {
	for _, p := range places {
		if addr, ok := address(p); ok {
			if !slices.Contains(others, addr) {
				others = append(others, addr)
			}
		} else if p == Here {
			here = true
		} else {
			paths = append(paths, p)
		}
	}
	return here || len(places) == 0, paths, others
}

// ReadAll is inspect.ReadAll of places: sockets and directories of this host, addresses
// HOST:PORT of a fanfare web on others, and Here. All are read side by side, and a bus that is
// read on several ways is there once.
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
	all, err := readHere(ctx, here, paths)
	wait.Wait()
	for _, x := range seen {
		all = append(all, x...)
	}
	if len(others) > 0 && errors.Is(err, inspect.ErrOff) {
		err = nil
	}
	return unite(all), err
}

// ReadHere is ReadAll of those places that are of this host: what a server passes on. Servers that
// passed on what they have of others would ask each other in circles.
func ReadHere(ctx context.Context, places ...string) ([]inspect.Seen, error) {
	here, paths, _ := divide(places)
	if !here && len(paths) == 0 {
		return nil, ErrNotHere
	}
	all, err := readHere(ctx, here, paths)
	return unite(all), err
}

func readHere(ctx context.Context, here bool, paths []string) (all []inspect.Seen, err error) {
	if here {
		all, err = inspect.ReadAll(ctx)
	}
	if len(paths) > 0 {
		more, pathErr := inspect.ReadAll(ctx, paths...)
		all, err = append(all, more...), cmp.Or(err, pathErr)
	}
	return all, err
}
