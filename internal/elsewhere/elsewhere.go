// Package elsewhere reads what the processes of other hosts say of their buses: where a
// fanfare web runs there, which serves it beside its page.
//
// It is GET /snapshots: a JSON object for each process, one a line, with the path of its
// socket and an inspect.Snapshot, or an error. Nothing can be changed by it.
package elsewhere

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"

	"github.com/fanfaremq/fanfare/internal/inspect"
)

// Path is where a server has the snapshots.
const Path = "/snapshots"

// Here is the place that stands for all processes of this host, beside others.
const Here = "here"

const (
	maxBytes     = 256 << 20 // of one answer
	maxProcesses = 4096
	maxWhy       = 300 // bytes of an error that a server says
)

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

// seen is inspect.Seen in JSON.
type seen struct {
	Socket   string            `json:"socket"`
	Snapshot *inspect.Snapshot `json:"snapshot,omitempty"`
	Error    string            `json:"error,omitempty"`
}

// client asks servers. It follows no redirects: an answer is from where it was asked.
var client = &http.Client{
	Transport:     &http.Transport{Proxy: nil, DisableKeepAlives: true, MaxResponseHeaderBytes: 16 << 10},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// read asks the server at addr.
func read(ctx context.Context, addr string) ([]inspect.Seen, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+Path, nil)
	if err != nil {
		return nil, fmt.Errorf("%q is no address of a host: %w", addr, err)
	}
	r.Host = "localhost" // under which it answers whatever it is called here
	resp, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return nil, errors.New("what listens there is no fanfare web, or one that does not serve snapshots yet")
	default:
		why, _ := io.ReadAll(io.LimitReader(resp.Body, maxWhy))
		return nil, fmt.Errorf("it answers %s: %q", resp.Status, strings.TrimSpace(string(why)))
	}
	host, _, _ := net.SplitHostPort(addr)
	d := json.NewDecoder(io.LimitReader(resp.Body, maxBytes))
	var all []inspect.Seen
	for range maxProcesses {
		var x seen
		if err := d.Decode(&x); err == io.EOF {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("its snapshots cannot be read: %w", err)
		}
		all = append(all, x.from(addr, host))
	}
	return all, nil
}

// from is what a process of another host has said.
func (x *seen) from(addr, host string) inspect.Seen {
	s := inspect.Seen{Socket: addr + " " + x.Socket, Snapshot: x.Snapshot}
	switch {
	case x.Snapshot == nil:
		s.Err = errors.New(cmp.Or(x.Error, "it says nothing"))
	case x.Snapshot.Version != inspect.Version:
		s.Snapshot, s.Err = nil, fmt.Errorf("its snapshots are of version %d, and this program reads version %d", x.Snapshot.Version, inspect.Version)
	default:
		p := &x.Snapshot.Process
		p.At = cmp.Or(p.At, p.Host, host)
	}
	return s
}
