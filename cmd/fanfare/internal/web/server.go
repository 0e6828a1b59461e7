package web

import (
	"context"
	"crypto/rand"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/internal/uplot"
)

//go:embed page.html style.css app.js map.js
var files embed.FS

// Read reads what the processes say (inspect.ReadAll).
type Read func(context.Context) ([]inspect.Seen, error)

// Interval is how often processes are read, and browsers told.
const Interval = time.Second

const (
	readWithin    = 700 * time.Millisecond // a process that is stopped does not answer
	headerTimeout = 5 * time.Second
	closeTimeout  = 2 * time.Second
)

type Server struct {
	addr   string
	hosts  []string // that a request may name, beside addresses
	http   *http.Server
	hub    *hub
	read   Read
	cancel context.CancelFunc
	served chan error
	polled chan struct{} // closed when the goroutine that reads has ended
}

// LocalError says that others than this host would reach the page.
type LocalError struct{ Addr string }

func (e *LocalError) Error() string {
	return fmt.Sprintf("%s can be reached from other hosts, and the page shows names, addresses and rates to whoever asks", e.Addr)
}

// Serve listens at addr, a TCP address such as "localhost:9465", and serves the page of
// what read says. Unless remote, addr must be of the loopback interface: otherwise it is a
// *LocalError. The caller closes the server.
func Serve(addr string, remote bool, read Read) (*Server, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("the page cannot be served at %q: %w", addr, err)
	}
	at, ok := l.Addr().(*net.TCPAddr)
	if !remote && (!ok || !at.IP.IsLoopback()) {
		l.Close()
		return nil, &LocalError{addr}
	}
	var id [8]byte
	rand.Read(id[:]) // never fails
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{
		addr: l.Addr().String(), hosts: hostsOf(addr, remote), hub: newHub(hex.EncodeToString(id[:])), read: read, cancel: cancel,
		served: make(chan error, 1), polled: make(chan struct{}),
	}
	s.http = &http.Server{Handler: s.handler(), ReadHeaderTimeout: headerTimeout, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	go func() { s.served <- s.http.Serve(l) }()
	go s.poll(ctx)
	return s, nil
}

// hostsOf are the names that a browser may use for addr.
func hostsOf(addr string, remote bool) []string {
	hosts := []string{"localhost"}
	if !remote {
		return hosts
	}
	if host, _, err := net.SplitHostPort(addr); err == nil && host != "" {
		hosts = append(hosts, strings.ToLower(host))
	}
	if name, err := os.Hostname(); err == nil {
		hosts = append(hosts, strings.ToLower(name))
	}
	return hosts
}

func (s *Server) Addr() string { return s.addr }

// Close tells browsers that it ends, and returns when all goroutines are gone. Call it once.
func (s *Server) Close() error {
	s.cancel()
	<-s.polled
	s.hub.close()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = s.http.Close()
	}
	if served := <-s.served; err == nil && !errors.Is(served, http.ErrServerClosed) {
		err = served
	}
	return err
}

func (s *Server) poll(ctx context.Context) {
	defer close(s.polled)
	m := newModel()
	tick := time.NewTicker(Interval)
	defer tick.Stop()
	for {
		within, cancel := context.WithTimeout(ctx, readWithin)
		seen, err := s.read(within)
		cancel()
		if ctx.Err() != nil {
			return
		}
		s.hub.tell(m.take(time.Now(), seen, err).marshal())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// policy is what a browser lets the page do: scripts and styles of this server, and events
// from it. Nothing from another server, and no page may have it in a frame.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	file := func(path, kind, text string) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind+"; charset=utf-8")
			w.Write([]byte(text))
		})
	}
	embedded := func(name string) string {
		text, err := files.ReadFile(name)
		if err != nil {
			panic(err) // they are in the program
		}
		return string(text)
	}
	file("/{$}", "text/html", embedded("page.html"))
	file("/style.css", "text/css", embedded("style.css"))
	file("/uplot.css", "text/css", uplot.Style)
	file("/uplot.js", "text/javascript", uplot.Script)
	file("/map.js", "text/javascript", embedded("map.js"))
	file("/app.js", "text/javascript", embedded("app.js"))
	mux.HandleFunc("GET /events", s.hub.serve)
	return s.guard(mux)
}

// guard refuses what a page of somebody else's could make a browser ask for: names that are
// not this host's (DNS rebinding), and requests from other sites.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if !s.mine(r.Host) {
			http.Error(w, "this server does not answer to that name: use localhost, or an address", http.StatusMisdirectedRequest)
			return
		}
		if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" && r.Header.Get("Sec-Fetch-Mode") != "navigate" {
			http.Error(w, "not for other sites", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// mine reports whether a request's host is this one: an address, which no name server can
// turn, or a name of it.
func (s *Server) mine(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return true
	}
	return slices.Contains(s.hosts, host)
}
