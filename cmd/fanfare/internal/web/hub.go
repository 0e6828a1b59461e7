package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Bounds on what browsers cost: each has some frames that wait, which it shares with the
// others, and the buffer of its socket. Who is further behind is hung up on, and its
// browser comes again.
const (
	maxClients  = 16
	maxWaiting  = 8
	writeWithin = 5 * time.Second
)

// hub tells browsers, each by a goroutine of package http's.
type hub struct {
	id string // of this start of the server

	mu      sync.Mutex
	clients map[chan []byte]struct{} // under mu; nil: closed
	points  [][]float64              // under mu: the last maxPoints
	events  []event                  // under mu: the last maxEvents
	last    []byte                   // under mu: the last frame
	closed  chan struct{}
}

func newHub(id string) *hub {
	return &hub{id: id, clients: make(map[chan []byte]struct{}), points: [][]float64{}, events: []event{}, closed: make(chan struct{})}
}

func (h *hub) tell(f *Frame, text []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.points = append(h.points, f.Point)
	h.points = slices.Delete(h.points, 0, max(0, len(h.points)-maxPoints))
	h.events = append(h.events, f.Events...)
	h.events = slices.Delete(h.events, 0, max(0, len(h.events)-maxEvents))
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

// close ends all. It says so first: who finds its channel closed asks whether that is why.
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
	Events   []event         `json:"events"`
	Last     json.RawMessage `json:"last,omitempty"`
}

// enter takes in a browser. It returns nil where there is no place.
func (h *hub) enter() (c chan []byte, first []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.clients == nil || len(h.clients) >= maxClients {
		return nil, nil
	}
	first, err := json.Marshal(&hello{h.id, Interval.Seconds(), h.points, h.events, h.last})
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

// serve tells one browser, until it goes, does not read, or the server is closed.
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
