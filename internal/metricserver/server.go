// Package metricserver serves metrics over HTTP, for the commands.
package metricserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Server answers GET /metrics until it is closed.
type Server struct {
	addr string
	http *http.Server
	done chan error
}

const (
	headerTimeout = 5 * time.Second
	writeTimeout  = 30 * time.Second
	closeTimeout  = 2 * time.Second
)

// Serve listens at addr, a TCP address such as "localhost:9464" or ":0", and serves the metrics of Go, of the process
// and of all collectors. The caller must close the server.
func Serve(addr string, all ...prometheus.Collector) (*Server, error) {
	registry := prometheus.NewPedanticRegistry()
	all = append(all, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, c := range all {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		if host, port, split := net.SplitHostPort(addr); split != nil || host+port == "" {
			err = errors.New("it must be HOST:PORT, such as localhost:9464")
		}
		return nil, fmt.Errorf("cannot serve metrics at %q: %w", addr, err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	s := &Server{
		addr: l.Addr().String(),
		http: &http.Server{Handler: mux, ReadHeaderTimeout: headerTimeout, WriteTimeout: writeTimeout},
		done: make(chan error, 1),
	}
	go func() { s.done <- s.http.Serve(l) }()
	return s, nil
}

// Addr returns the address of the listener.
func (s *Server) Addr() string { return s.addr }

// Close ends the server. A scrape in progress has two seconds. It returns when the goroutines have ended, and must be
// called only once.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = s.http.Close()
	}
	if served := <-s.done; err == nil && !errors.Is(served, http.ErrServerClosed) {
		err = served
	}
	return err
}
