package elsewhere

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fanfaremq/fanfare/internal/inspect"
)

func process(pid int, host string) inspect.Seen {
	return inspect.Seen{Socket: fmt.Sprintf("/run/%d.sock", pid), Snapshot: &inspect.Snapshot{
		Version: inspect.Version, Process: inspect.Process{PID: pid, Program: "feed", Host: host}, Buses: []inspect.Bus{{Identity: inspect.Identity{ID: fmt.Sprint(host, pid)}}},
	}}
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("GET "+Path, h)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// Paths, addresses and the word for this host are told apart.
func TestPlaces(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("x:1", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for place, want := range map[string]string{
		"10.0.0.5:9465": "10.0.0.5:9465", "trade2:9465": "trade2:9465", "http://trade2:9465/": "trade2:9465", "[fe80::1%eth0]:9465": "[fe80::1%eth0]:9465",
		"trade2": "", "trade2:": "", "/run/x:1": "", "./x:1": "", "x:1": "", "here": "", "http://trade2:9465/other": "", "": "",
		"http://trade2:9465/snapshots": "trade2:9465", "http://trade2:9465/snapshots/": "", "https://trade2:9465": "", "trade2:9465/snapshots": "", "http://trade2": "",
	} {
		got, ok := address(place)
		if ok != (want != "") || ok && got != want {
			t.Errorf("%q is %q, %v; want %q", place, got, ok, want)
		}
	}
	here, paths, others := divide([]string{"here", "/run/a", "h:1", "i:2"})
	if !here || len(paths) != 1 || len(others) != 2 {
		t.Errorf("%v %v %v", here, paths, others)
	}
	if here, _, _ := divide(nil); !here {
		t.Error("no place is not this host")
	}
	if here, _, _ := divide([]string{"h:1"}); here {
		t.Error("an address is this host")
	}
	if err := Check([]string{"h:1"}); err != nil {
		t.Errorf("an address: %v", err)
	}
	for _, place := range []string{"/nowhere", "10.0.0.5", "localhost", "https://trade2:9465"} {
		if err := Check([]string{"h:1", place}); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), place) || !strings.Contains(err.Error(), What) {
			t.Errorf("%s: %v", place, err)
		}
	}
	for _, place := range []string{"h:0", "h:65536", "h:-1", "h:http", "h:1?x", "h:1#x", "u@h:1", "h x:1", "http://u@h:1/"} {
		if err := Check([]string{"h:1", place}); err == nil || !strings.Contains(err.Error(), "port from 1 to 65535") {
			t.Errorf("%s: %v", place, err)
		}
	}
	if err := Check([]string{":1", "[::1]:65535", "[fe80::1%eth0]:1", "bücher.example:9465"}); err != nil {
		t.Error(err)
	}
	for text, want := range map[string]bool{"10.0.0.5:9465": true, "trade2:9465": true, "http://trade2:9465/": true, "/run/x": true, "md.>": false, "md:AAPL": false, "feed": false, ">": false} {
		if LooksLike(text) != want {
			t.Errorf("%s looks like a place: %v", text, !want)
		}
	}
}

// What processes of another host say comes with the name of that host; those who do not
// answer there come with why, and a host that does not answer with its address.
func TestReadAll(t *testing.T) {
	t.Setenv(inspect.Variable, filepath.Join(t.TempDir(), "none"))
	relayed := process(9, "trade3")
	relayed.Snapshot.Process.At = "trade3"
	a := serve(t, Handler(func(context.Context) ([]inspect.Seen, error) {
		return []inspect.Seen{process(7, "trade2"), relayed, {Socket: "/run/deaf.sock", Err: errors.New("it does not answer")}}, nil
	}))
	b := serve(t, Handler(func(context.Context) ([]inspect.Seen, error) { return nil, errors.New("processes cannot be looked at") }))
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{\"socket\":\"x\"}\n{") }))
	old := process(1, "old")
	old.Snapshot.Version = inspect.Version + 1
	d := serve(t, Handler(func(context.Context) ([]inspect.Seen, error) { return []inspect.Seen{old}, nil }))
	e := serve(t, http.RedirectHandler("http://"+a+Path, http.StatusFound))
	closed := httptest.NewServer(http.NotFoundHandler())
	f := strings.TrimPrefix(closed.URL, "http://")
	other, err := ReadAll(t.Context(), f)
	if err != nil || len(other) != 1 || other[0].Err == nil || !strings.Contains(other[0].Err.Error(), "no fanfare web") {
		t.Errorf("another server: %+v, %v", other, err)
	}
	closed.Close()
	seen, err := ReadAll(t.Context(), a, "http://"+b, c, d, e, f)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range seen {
		if s.Err != nil {
			got = append(got, s.Socket+": "+s.Err.Error())
		} else {
			got = append(got, s.Socket+" "+s.Snapshot.Process.Name())
		}
	}
	want := []string{
		a + " /run/7.sock feed[7]@trade2", a + " /run/9.sock feed[9]@trade3", a + " /run/deaf.sock: it does not answer",
		b + `: it answers 503 Service Unavailable: "processes cannot be looked at"`, c + ": its snapshots cannot be read: unexpected EOF",
		d + " /run/1.sock: its snapshots are of version 2, and this program reads version 1", e + ": it answers 302 Found",
	}
	if len(got) != len(want)+1 {
		t.Fatalf("got\n%s", strings.Join(got, "\n"))
	}
	for i, w := range want {
		if !strings.HasPrefix(got[i], w) {
			t.Errorf("got  %s\nwant %s", got[i], w)
		}
	}
	if !strings.Contains(got[len(want)], "refused") {
		t.Errorf("of a host that does not listen: %s", got[len(want)])
	}
}

// However many ask at once, processes are read once, and those beyond the bound are sent away.
func TestManyAsk(t *testing.T) {
	var reads atomic.Int32
	hold := make(chan struct{})
	a := serve(t, Handler(func(context.Context) ([]inspect.Seen, error) {
		reads.Add(1)
		<-hold
		return []inspect.Seen{process(1, "h")}, nil
	}))
	var served, refused atomic.Int32
	var all sync.WaitGroup
	for range 2 * maxClients {
		all.Go(func() {
			seen, _ := ReadAll(t.Context(), a)
			if seen[0].Err == nil {
				served.Add(1)
			} else if strings.Contains(seen[0].Err.Error(), "too many") {
				if refused.Add(1) == maxClients {
					close(hold)
				}
			}
		})
	}
	all.Wait()
	if served.Load() != maxClients || refused.Load() != maxClients || reads.Load() != 1 {
		t.Errorf("%d served, %d refused, %d reads", served.Load(), refused.Load(), reads.Load())
	}
}
