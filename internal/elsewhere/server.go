package elsewhere

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/fanfaremq/fanfare/internal/inspect"
)

const (
	readWithin  = 400 * time.Millisecond // less than those wait who ask
	writeWithin = 5 * time.Second
	maxClients  = 16
	shareFor    = 100 * time.Millisecond // that an answer is given to others, too
)

// handler serves what the processes of its host say.
type handler struct {
	read    func(context.Context) ([]inspect.Seen, error)
	clients chan struct{} // one for each that is served

	mu   sync.Mutex
	at   time.Time // under mu, as text
	text []byte
}

// Handler serves what read says, which is ReadHere: it waits for no other server. However many ask,
// it is not read more often than ten times a second.
func Handler(read func(context.Context) ([]inspect.Seen, error)) http.Handler {
	return &handler{read: read, clients: make(chan struct{}, maxClients)}
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case h.clients <- struct{}{}:
		defer func() { <-h.clients }()
	default:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many look at this host", http.StatusServiceUnavailable)
		return
	}
	text, err := h.take(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/jsonl")
	if http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeWithin)) == nil {
		w.Write(text)
	}
}

// take reads all, or has it from who has just read.
func (h *handler) take(ctx context.Context) ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.text != nil && time.Since(h.at) < shareFor {
		return h.text, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readWithin)
	defer cancel()
	all, err := h.read(ctx)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	for _, x := range all {
		line := seen{Socket: x.Socket, Snapshot: x.Snapshot}
		if x.Err != nil {
			line.Error = x.Err.Error()
		}
		if err := e.Encode(&line); err != nil {
			return nil, err
		}
	}
	h.at, h.text = time.Now(), b.Bytes()
	return h.text, nil
}
