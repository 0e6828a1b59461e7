package web

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/internal/testenv"
)

func readNothing(context.Context) ([]inspect.Seen, error) { return nil, nil }

// The page is served to this host only, unless the remote option is set.
func TestServeLocally(t *testing.T) {
	for _, c := range []struct {
		addr   string
		remote bool
		local  bool // a LocalError
	}{
		{"localhost:0", false, false}, {"127.0.0.1:0", false, false}, {"127.0.0.2:0", false, runtime.GOOS != "linux"},
		{":0", false, true}, {"0.0.0.0:0", false, true}, {":0", true, false},
	} {
		s, err := Serve(c.addr, c.remote, readNothing)
		var local *LocalError
		if errors.As(err, &local) != c.local && (err == nil || c.local) {
			t.Errorf("Serve on %s, remote %v: error %v, want a LocalError: %v", c.addr, c.remote, err, c.local)
		}
		if err == nil {
			s.Close()
		}
	}
	if _, err := Serve("nowhere", false, readNothing); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("Serve on an address without a port fails with %v, want the address", err)
	}
}

// Requests that a foreign page can make in a browser are refused. Each answer restricts what a
// browser may do with its contents.
func TestGuard(t *testing.T) {
	s := serve(t, "localhost:0", readNothing)
	defer s.Close()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, c := range []struct {
		path, host, site, mode string
		want                   int
	}{
		{"/", "", "", "", 200}, {"/", "localhost", "", "", 200}, {"/", "LOCALHOST:80", "", "", 200}, {"/", "localhost.:80", "", "", 200},
		{"/", "127.0.0.1:9465", "", "", 200}, {"/", "[::1]:9465", "", "", 200}, {"/", "10.0.0.1", "", "", 200},
		{"/", "evil.example", "", "", 421}, {"/", "localhost.evil.example", "", "", 421}, {"/events", "evil.example:9465", "", "", 421}, {"/", "127.0.0.1.evil.example", "", "", 421},
		{"/app.js", "", "same-origin", "no-cors", 200}, {"/app.js", "", "cross-site", "no-cors", 403}, {"/events", "", "cross-site", "cors", 403}, {"/", "", "cross-site", "navigate", 200},
		{"/style.css", "", "", "", 200}, {"/uplot.js", "", "", "", 200}, {"/uplot.css", "", "", "", 200}, {"/map.js", "", "", "", 200}, {"/other", "", "", "", 404}, {"/../server.go", "", "", "", 404},
	} {
		r, err := http.NewRequest("GET", "http://"+s.Addr()+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = c.host
		for k, v := range map[string]string{"Sec-Fetch-Site": c.site, "Sec-Fetch-Mode": c.mode} {
			if v != "" {
				r.Header.Set(k, v)
			}
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != c.want {
			t.Errorf("%s of host %q from site %q: %s, want %d", c.path, c.host, c.site, resp.Status, c.want)
		}
		if h := resp.Header; h.Get("Content-Security-Policy") != policy || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: headers %v, want the page's policy, nosniff and no allowed origin", c.path, h)
		}
	}
	if resp, err := client.Post("http://"+s.Addr()+"/", "text/plain", strings.NewReader("x")); err != nil || resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST is answered by %v, error %v, want status %d", resp, err, http.StatusMethodNotAllowed)
	} else {
		resp.Body.Close()
	}
}

// A browser receives the earlier points, then each frame, and finally the end. After the server is
// closed no goroutine is left.
func TestEvents(t *testing.T) {
	before := runtime.NumGoroutine()
	s := serve(t, "localhost:0", func(context.Context) ([]inspect.Seen, error) { return hostileSnapshot(time.Now()), nil })
	client := &http.Client{Transport: &http.Transport{}}
	resp, err := client.Get("http://" + s.Addr() + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	r := bufio.NewReader(resp.Body)
	next := func() string {
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if name, ok := strings.CutPrefix(line, "event: "); ok {
				return strings.TrimSpace(name)
			}
		}
	}
	if a, b := next(), next(); a != "hello" || b != "frame" {
		t.Errorf("first events %q and %q, want hello and frame", a, b)
	}
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	for name := next(); name != "bye"; name = next() {
		if name != "frame" {
			t.Fatalf("event %q, want frame or bye", name)
		}
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	io.Copy(io.Discard, resp.Body)
	client.CloseIdleConnections()
	testenv.AwaitGoroutines(t, before)
}

// A browser that does not read misses some frames, then its connection is closed. The number of
// browsers and the first data for each are limited.
func TestBrowsersAreBounded(t *testing.T) {
	h := newHub("x")
	var all []chan []byte
	for range maxClients {
		c, first := h.enter()
		if c == nil || !strings.Contains(string(first), `"server":"x"`) {
			t.Fatalf("not let in: %s", first)
		}
		all = append(all, c)
	}
	if c, _ := h.enter(); c != nil {
		t.Error("one more is let in")
	}
	reads := all[0]
	for i := range maxWaiting + 1 {
		h.send(&Frame{Point: []float64{float64(i)}}, []byte("frame"))
		<-reads
	}
	for i, c := range all[1:] {
		n := 0
		for range c {
			n++
		}
		if n != maxWaiting {
			t.Errorf("browser %d: %d frames wait, want %d", i, n, maxWaiting)
		}
	}
	if len(h.clients) != 1 {
		t.Errorf("%d browsers are left, want 1", len(h.clients))
	}
	for i := range 2 * maxPoints {
		h.send(&Frame{Point: []float64{float64(i)}}, []byte("frame"))
		<-reads
	}
	if len(h.points) != maxPoints || h.points[maxPoints-1][0] != 2*maxPoints-1 {
		t.Errorf("%d points are kept, want %d", len(h.points), maxPoints)
	}
	h.close()
	if c, _ := h.enter(); c != nil {
		t.Error("one is let in when all is over")
	}
}

// A client that reads nothing does not prevent the server from ending.
func TestCloseWithoutReaders(t *testing.T) {
	s := serve(t, "localhost:0", readNothing)
	for range 3 {
		c, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
