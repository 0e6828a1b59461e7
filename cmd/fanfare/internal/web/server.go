package web

import (
	"context"
	"crypto/rand"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/internal/uplot"
)

//go:embed page.html style.css app.js map.js
var files embed.FS

// Read reads what the processes say (inspect.ReadAll).
type Read func(context.Context) ([]inspect.Seen, error)

const Interval = time.Second // how often processes are read, and browsers updated

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

type LocalError struct{ Addr string }

func (e *LocalError) Error() string {
	return fmt.Sprintf("%s can be reached from other hosts, and the page shows names, addresses and rates to any of them", e.Addr)
}

// Serve listens at addr, a TCP address such as "localhost:9465", and serves the page of what read says. Unless
// remote, addr must be of the loopback interface: otherwise it is a *LocalError. The caller closes the server.
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
		addr: l.Addr().String(), hosts: hostsOf(addr, remote), hub: newHub(hex.EncodeToString(id[:])), read: read,
		cancel: cancel, served: make(chan error, 1), polled: make(chan struct{}),
	}
	s.http = &http.Server{Handler: s.handler(), ReadHeaderTimeout: headerTimeout, IdleTimeout: time.Minute,
		MaxHeaderBytes: 16 << 10}
	go func() { s.served <- s.http.Serve(l) }()
	go s.poll(ctx)
	return s, nil
}

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

// Close says to browsers that the server ends, and returns when all goroutines are gone. Call it once.
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
		s.hub.send(m.update(time.Now(), seen, err).marshal())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// policy allows the page scripts, styles and events of this server only, and no page to have it in a frame.
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

// guard refuses what a page of another site could make a browser ask for: names that are
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

// mine reports whether a request's host is this one: an address, which no name server can turn, or a name of it.
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

// Bounds on what browsers cost: each has some frames that wait, which it shares with the others, and the buffer of
// its socket. The connection of one that is further behind is closed, and its browser connects again.
const (
	maxClients  = 16
	maxWaiting  = 8
	writeWithin = 5 * time.Second
)

// hub sends to browsers, to each by a goroutine of package http's.
type hub struct {
	id string // of this start of the server

	mu      sync.Mutex
	clients map[chan []byte]struct{} // under mu; nil: closed
	points  [][]float64              // under mu: the last maxPoints
	last    []byte                   // under mu: the last frame
	closed  chan struct{}
}

func newHub(id string) *hub {
	return &hub{id: id, clients: make(map[chan []byte]struct{}), points: [][]float64{}, closed: make(chan struct{})}
}

func (h *hub) send(f *Frame, text []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.points = append(h.points, f.Point)
	h.points = slices.Delete(h.points, 0, max(0, len(h.points)-maxPoints))
	h.last = text
	for c := range h.clients {
		select {
		case c <- text:
		default: // it does not read
			delete(h.clients, c)
			close(c)
		}
	}
}

// close ends all. It says so first: a goroutine that finds its channel closed asks whether that is why.
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.closed)
	for c := range h.clients {
		close(c)
	}
	h.clients = nil
}

type hello struct {
	Server   string          `json:"server"`
	Interval float64         `json:"interval"` // seconds
	Points   [][]float64     `json:"points"`
	Last     json.RawMessage `json:"last,omitempty"`
}

// enter takes in a browser. It returns nil where there is no place.
func (h *hub) enter() (c chan []byte, first []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.clients == nil || len(h.clients) >= maxClients {
		return nil, nil
	}
	first, err := json.Marshal(&hello{h.id, Interval.Seconds(), h.points, h.last})
	if err != nil {
		return nil, nil
	}
	c = make(chan []byte, maxWaiting)
	h.clients[c] = struct{}{}
	return c, first
}

func (h *hub) leave(c chan []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.clients, c)
}

func (h *hub) serve(w http.ResponseWriter, r *http.Request) {
	c, first := h.enter()
	if c == nil {
		w.Header().Set("Retry-After", "5")
		http.Error(w, "too many browsers look at this page", http.StatusServiceUnavailable)
		return
	}
	defer h.leave(c)
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	send := func(name string, text []byte) bool {
		if control.SetWriteDeadline(time.Now().Add(writeWithin)) != nil {
			return false
		}
		if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, text); err != nil {
			return false
		}
		return control.Flush() == nil
	}
	if !send("hello", first) {
		return
	}
	for {
		select {
		case <-r.Context().Done():
			return
		case text, ok := <-c:
			if !ok {
				select {
				case <-h.closed:
					send("bye", []byte("{}"))
				default:
				}
				return
			}
			if !send("frame", text) {
				return
			}
		}
	}
}
